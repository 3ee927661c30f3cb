//! Counts of what happened, by name: a simulation in which nothing goes wrong proves nothing.

macro_rules! report {
    ($($field:ident: $words:literal),* $(,)?) => {
        /// What happened, in numbers.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Report {
            $($field: u64),*
        }

        impl Report {
            pub(crate) fn plus(self, other: Self) -> Self {
                Self { $($field: self.$field + other.$field),* }
            }

            pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$(($words, self.$field)),*]
            }
        }
    };
}

pub(crate) use report;
