use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// Something that is wrong with the configuration, or that looks wrong.
///
/// Prints as one line: `config/routes/orders.toml:7: to.connector: there is no connector "rabit"; did you mean
/// "rabbit"?`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the bridge can run in spite of it.
    pub severity: Severity,
    /// The file it is in.
    pub file: PathBuf,
    /// The line, counted from 1, when there is one: a missing section has none.
    pub line: Option<u32>,
    /// The key, with the sections it is in, such as `to.connector`.
    pub key: Option<String>,
    /// What is wrong, and what would be right.
    pub text: String,
}

/// How bad a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The bridge doesn't start.
    Error,
    /// The bridge starts, but probably not with what was meant.
    Warning,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Visible(&self.file.to_string_lossy()))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{}: ", Visible(key))?;
        }
        f.write_str(&self.text)
    }
}

/// Everything that is wrong with a configuration, in the order of the files: all of it at once, so that it can be
/// put right at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Sorts by file, line and key; errors and warnings stay mixed, as they are in the files.
    pub(crate) fn sorted(mut found: Vec<Problem>, files: &[PathBuf]) -> Self {
        let rank = |problem: &Problem| files.iter().position(|file| *file == problem.file).unwrap_or(usize::MAX);
        found.sort_by(|a, b| {
            (rank(a), &a.file, a.line, &a.key, a.severity).cmp(&(rank(b), &b.file, b.line, &b.key, b.severity))
        });
        found.dedup();
        Self(found)
    }

    /// These, and then the others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// What keeps the bridge from running.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter().filter(|problem| problem.severity == Severity::Error)
    }

    /// What only looks wrong.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter().filter(|problem| problem.severity == Severity::Warning)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// Whether nothing keeps the bridge from running.
    pub fn is_fine(&self) -> bool {
        self.errors().next().is_none()
    }
}

/// One line each.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for Problems {}

/// Text of a file in quotes, made harmless for a terminal and kept to a readable length.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const READABLE: usize = 120;
        match self.0.char_indices().nth(READABLE) {
            Some((cut, _)) => write!(f, "\"{}…\"", Visible(&self.0[..cut])),
            None => write!(f, "\"{}\"", Visible(self.0)),
        }
    }
}

/// Text without control characters. Backslashes stay single: queue names are full of them.
pub(crate) struct Visible<'a>(pub(crate) &'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

/// The valid name that was probably meant: at most a third of its characters are off, case apart.
pub(crate) fn nearest<'a>(given: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    valid
        .into_iter()
        .map(|name| (strsim::osa_distance(&given, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= (name.chars().count() / 3).max(1))
        .min()
        .map(|(_, name)| name)
}

/// The end of a sentence about a name that isn't valid: what was probably meant, or else what there is.
pub(crate) fn suggestion<'a>(given: &str, valid: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    let mut valid: Vec<&str> = valid.into_iter().collect();
    valid.sort_unstable();
    match nearest(given, valid.iter().copied()) {
        Some(name) => format!("; did you mean {}?", Quoted(name)),
        None if valid.is_empty() => String::new(),
        None => format!("; {otherwise} {}", valid.join(", ")),
    }
}
