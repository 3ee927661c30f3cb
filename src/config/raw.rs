//! What the files say: TOML with positions, read key by key.
//!
//! A [`Section`] is asked for each key that it may have. Asking checks the type, puts environment variables in, and
//! writes down what is wrong instead of stopping at it; whatever was never asked for is unknown, so there is no
//! second list of the keys that could disagree with the code.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::substitute;
use super::files::{FileUse, NamedFile};
use super::problem::{Problem, Quoted, Severity, suggestion};
use super::values::{self, Size, Time};

/// Syntax errors shown of one file: the rest of them usually follow from the first.
const SYNTAX_ERRORS_SHOWN: usize = 5;

/// What all files of a configuration share while they are read.
pub(crate) struct Context<'a> {
    /// Environment variables by name.
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    /// The directory of the main file: paths are relative to it.
    pub(crate) directory: PathBuf,
    /// What was found to be wrong so far.
    pub(crate) problems: RefCell<Vec<Problem>>,
    /// The files that the configuration names.
    pub(crate) named_files: RefCell<Vec<NamedFile>>,
    /// Every key that was asked for.
    pub(crate) known: RefCell<BTreeSet<String>>,
}

/// One file.
pub(crate) struct Document<'a> {
    /// As it is shown.
    pub(crate) path: &'a Path,
    /// Its text.
    pub(crate) text: &'a str,
    /// What it shares with the others.
    pub(crate) context: &'a Context<'a>,
    /// Where the line feeds are.
    line_feeds: Vec<usize>,
}

/// A value and the line it stands in.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) line: u32,
    /// It came from the environment, wholly or in part.
    pub(crate) from_environment: bool,
}

impl<T> At<T> {
    /// Something else that stands there.
    pub(crate) fn with<U>(&self, value: U) -> At<U> {
        At { value, line: self.line, from_environment: self.from_environment }
    }
}

/// A value of any type as text.
pub(crate) struct Rendered {
    /// For comparison: the items of a list joined by `, `.
    pub(crate) plain: String,
    /// For messages.
    pub(crate) shown: String,
    pub(crate) line: u32,
}

impl<'a> Context<'a> {
    pub(crate) fn new(directory: PathBuf, environment: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            environment,
            directory,
            problems: RefCell::default(),
            named_files: RefCell::default(),
            known: RefCell::default(),
        }
    }

    pub(crate) fn report(&self, severity: Severity, file: &Path, line: Option<u32>, key: Option<String>, text: String) {
        self.problems.borrow_mut().push(Problem { severity, file: file.to_owned(), line, key, text });
    }
}

impl<'a> Document<'a> {
    pub(crate) fn new(path: &'a Path, text: &'a str, context: &'a Context<'a>) -> Self {
        let line_feeds = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        Self { path, text, context, line_feeds }
    }

    /// Parses the text. `None` when it isn't TOML: what the rest of such a file means is anybody's guess.
    pub(crate) fn parse(&self) -> Option<Spanned<DeTable<'a>>> {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        for error in errors.iter().take(SYNTAX_ERRORS_SHOWN) {
            let line = error.span().map(|span| self.line(span.start));
            // Only the description: the parser's own rendering shows the line, which may hold a password.
            self.context.report(
                Severity::Error,
                self.path,
                line,
                None,
                format!("not TOML: {}{}", error.message(), hint(error.message())),
            );
        }
        errors.is_empty().then_some(root)
    }

    /// The section that holds all others.
    pub(crate) fn root<'s>(&'s self, table: &'s DeTable<'s>) -> Section<'s> {
        Section { document: self, path: String::new(), table: Some(table), line: None, asked: RefCell::default() }
    }

    fn line(&self, offset: usize) -> u32 {
        let before = self.line_feeds.partition_point(|at| *at < offset);
        u32::try_from(before).map_or(u32::MAX, |lines| lines.saturating_add(1))
    }
}

/// A table of a file, or the place where one could be.
pub(crate) struct Section<'a> {
    document: &'a Document<'a>,
    /// `connectors.rabbit`; empty for the root.
    path: String,
    table: Option<&'a DeTable<'a>>,
    line: Option<u32>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Section<'a> {
    /// Whether the file has it.
    pub(crate) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the file has this key in it.
    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.lookup(key).is_some()
    }

    /// Whether this key is a list with nothing in it.
    pub(crate) fn is_empty_list(&self, key: &str) -> bool {
        self.lookup(key).and_then(|value| value.get_ref().as_array()).is_some_and(|items| items.is_empty())
    }

    /// A section inside this one. Absent ones are empty.
    pub(crate) fn section(&self, key: &'static str) -> Section<'a> {
        let path = self.path_of(key);
        let found = self.value(key).and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some((table, self.line_of(value))),
            other => {
                self.wrong_type(key, value, "a section", other);
                None
            }
        });
        self.inner(path, found)
    }

    /// The sections inside this one that the user has named.
    pub(crate) fn entries(&self) -> Vec<(&'a str, Section<'a>)> {
        let mut entries = Vec::new();
        for (name, value) in self.table.into_iter().flatten() {
            let name: &str = name.get_ref();
            let path = self.path_of(name);
            match value.get_ref() {
                DeValue::Table(table) => entries.push((name, self.inner(path, Some((table, self.line_of(value)))))),
                other => self.report(
                    Severity::Error,
                    Some(self.line_of(value)),
                    path,
                    format!("a section is expected, not {}", with_article(other.type_str())),
                ),
            }
        }
        entries
    }

    /// The sections of a list such as `[[user]]`.
    pub(crate) fn tables(&self, key: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let expected = format!("a list of sections, [[{}]],", self.path_of(key));
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong_type(key, value, &expected, value.get_ref());
            return Vec::new();
        };
        let table = |item: &'a Spanned<DeValue<'a>>| match item.get_ref() {
            DeValue::Table(table) => Some(self.inner(self.path_of(key), Some((table, self.line_of(item))))),
            other => {
                self.wrong_type(key, item, &expected, other);
                None
            }
        };
        items.iter().filter_map(table).collect()
    }

    /// Whether this key has a section for its value.
    pub(crate) fn has_section(&self, key: &str) -> bool {
        self.lookup(key).is_some_and(|value| value.get_ref().is_table())
    }

    fn inner(&self, path: String, found: Option<(&'a DeTable<'a>, u32)>) -> Section<'a> {
        let (table, line) = found.unzip();
        Section { document: self.document, path, table, line, asked: RefCell::default() }
    }

    /// A string.
    pub(crate) fn text(&self, key: &'static str) -> Option<At<String>> {
        let value = self.value(key)?;
        self.string(key, value, "a string")
    }

    /// A list of strings.
    pub(crate) fn texts(&self, key: &'static str) -> Option<Vec<At<String>>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Array(items) => {
                Some(items.iter().filter_map(|item| self.string(key, item, "a list of strings")).collect())
            }
            other => {
                self.wrong_type(key, value, "a list of strings", other);
                None
            }
        }
    }

    /// A truth value.
    pub(crate) fn flag(&self, key: &'static str) -> Option<At<bool>> {
        self.choice(key, &[("true", true), ("false", false)])
    }

    /// A whole number.
    pub(crate) fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let value = self.value(key)?;
        let number = self.number(key, value, "a whole number")?;
        if !range.contains(&number.value) {
            let text = format!("{} is not from {} to {}", number.value, range.start(), range.end());
            self.error(key, number.line, text);
            return None;
        }
        Some(number)
    }

    /// A number of bytes.
    pub(crate) fn size(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let value = self.value(key)?;
        let size = if value.get_ref().is_integer() {
            self.number(key, value, "a size")?
        } else {
            let text = self.string(key, value, "a size such as \"4 MiB\"")?;
            self.parsed(key, &text, values::parse_size)?
        };
        if !range.contains(&size.value) {
            let text = format!("{} is not from {} to {}", Size(size.value), Size(*range.start()), Size(*range.end()));
            self.error(key, size.line, text);
            return None;
        }
        Some(size)
    }

    /// A time.
    pub(crate) fn time(&self, key: &'static str, range: RangeInclusive<Duration>) -> Option<At<Duration>> {
        let value = self.value(key)?;
        let text = self.string(key, value, "a time such as \"30s\"")?;
        let time = self.parsed(key, &text, values::parse_time)?;
        if !range.contains(&time.value) {
            let text = format!("{} is not from {} to {}", Time(time.value), Time(*range.start()), Time(*range.end()));
            self.error(key, time.line, text);
            return None;
        }
        Some(time)
    }

    /// A time, or `"infinite"`, which is `None` in the result.
    pub(crate) fn time_or_infinite(&self, key: &'static str) -> Option<At<Option<Duration>>> {
        let value = self.value(key)?;
        let text = self.string(key, value, "a time such as \"4d\" or \"infinite\"")?;
        self.parsed(key, &text, |text| match text {
            "infinite" => Ok(None),
            _ => values::parse_time(text).map(Some),
        })
    }

    /// One of a few words; `true` and `false` among them stand for the truth values.
    pub(crate) fn choice<T: Copy>(&self, key: &'static str, valid: &[(&'static str, T)]) -> Option<At<T>> {
        let value = self.value(key)?;
        self.chosen(key, value, valid)
    }

    /// Several of a few words.
    pub(crate) fn choices<T: Copy>(&self, key: &'static str, valid: &[(&'static str, T)]) -> Option<Vec<At<T>>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Array(items) => Some(items.iter().filter_map(|item| self.chosen(key, item, valid)).collect()),
            other => {
                self.wrong_type(key, value, "a list of strings", other);
                None
            }
        }
    }

    /// A path, relative to the directory of the main file.
    pub(crate) fn path(&self, key: &'static str, used_as: FileUse) -> Option<At<PathBuf>> {
        let text = self.text(key)?;
        if text.value.is_empty() {
            self.error(key, text.line, "an empty path".to_owned());
            return None;
        }
        let path = self.beside(&text.value);
        if used_as != FileUse::OurOwn {
            self.document.context.named_files.borrow_mut().push(NamedFile {
                path: path.clone(),
                used_as,
                config_file: self.document.path.to_owned(),
                line: text.line,
                key: self.path_of(key),
            });
        }
        Some(At { value: path, line: text.line, from_environment: text.from_environment })
    }

    /// Where a relative path leads: from the directory of the main file.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.document.context.directory.join(path)
    }

    /// A key whose value is not looked into.
    pub(crate) fn anything(&self, key: &'static str) {
        let _ = self.value(key);
    }

    /// Reads with a function of the caller, whose error completes the problem.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &self,
        key: &'static str,
        text: &At<String>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        match parse(&text.value) {
            Ok(value) => Some(At { value, line: text.line, from_environment: text.from_environment }),
            Err(error) => {
                self.error(key, text.line, error.to_string());
                None
            }
        }
    }

    pub(crate) fn error(&self, key: &str, line: u32, text: String) {
        self.report(Severity::Error, Some(line), self.path_of(key), text);
    }

    pub(crate) fn warning(&self, key: &str, line: u32, text: String) {
        self.report(Severity::Warning, Some(line), self.path_of(key), text);
    }

    /// A key that has to be there and is not.
    pub(crate) fn missing(&self, key: &str, remedy: &str) {
        self.fault(key, format!("is missing; {remedy}"));
    }

    /// An error of a key, present or not.
    pub(crate) fn fault(&self, key: &str, text: String) {
        let line = self.lookup(key).map(|value| self.line_of(value)).or(self.line);
        self.report(Severity::Error, line, self.path_of(key), text);
    }

    /// An error of the section itself.
    pub(crate) fn fault_here(&self, text: String) {
        self.report(Severity::Error, self.line, self.path.clone(), text);
    }

    /// Reports the keys that nobody asked for.
    pub(crate) fn finish(&self) {
        let asked = self.asked.borrow();
        for key in self.table.into_iter().flat_map(|table| table.keys()) {
            let name: &str = key.get_ref();
            if asked.contains(name) {
                continue;
            }
            let place = if self.path.is_empty() { "this file".to_owned() } else { format!("[{}]", self.path) };
            let text = format!("unknown key{}", suggestion(name, asked.iter().copied(), &format!("{place} may have")));
            let line = self.document.line(key.span().start);
            self.report(Severity::Error, Some(line), self.path_of(name), text);
        }
    }

    /// The value at a dotted path below this section, without asking for it.
    pub(crate) fn rendered(&self, dotted: &str) -> Option<Rendered> {
        let (parents, key) = dotted.rsplit_once('.').map_or((None, dotted), |(parents, key)| (Some(parents), key));
        let mut table = self.table?;
        for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
            table = table.get(parent)?.get_ref().as_table()?;
        }
        let value = table.get(key)?;
        let (plain, shown) = self.render(value.get_ref());
        Some(Rendered { plain, shown, line: self.line_of(value) })
    }

    /// Whether something was found to be wrong with the value at a dotted path.
    pub(crate) fn is_faulty(&self, dotted: &str) -> bool {
        let problems = self.document.context.problems.borrow();
        problems.iter().any(|problem| {
            problem.severity == Severity::Error
                && problem.file == self.document.path
                && problem.key.as_deref() == Some(dotted)
        })
    }

    fn render(&self, value: &DeValue<'_>) -> (String, String) {
        let plain = match value {
            DeValue::String(text) => {
                let text =
                    substitute(text, self.document.context.environment).map_or(text.to_string(), |(text, _)| text);
                let shown = Quoted(&text).to_string();
                return (text, shown);
            }
            DeValue::Array(items) => {
                let (plain, shown): (Vec<_>, Vec<_>) = items.iter().map(|item| self.render(item.get_ref())).unzip();
                return (plain.join(", "), format!("[{}]", shown.join(", ")));
            }
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(time) => time.to_string(),
            DeValue::Table(_) => "a section".to_owned(),
        };
        (plain.clone(), plain)
    }

    fn lookup(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.and_then(|table| table.get(key))
    }

    fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().insert(key);
        self.document.context.known.borrow_mut().insert(self.path_of(key));
        self.lookup(key)
    }

    fn string(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> Option<At<String>> {
        let line = self.line_of(value);
        let DeValue::String(text) = value.get_ref() else {
            self.wrong_type(key, value, expected, value.get_ref());
            return None;
        };
        match substitute(text, self.document.context.environment) {
            Ok((value, from_environment)) => Some(At { value, line, from_environment }),
            Err(why) => {
                self.error(key, line, why);
                None
            }
        }
    }

    /// A number, or text that the environment has made one.
    fn number(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> Option<At<u64>> {
        let line = self.line_of(value);
        match value.get_ref() {
            DeValue::Integer(number) => {
                let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
                if parsed.is_none() {
                    self.error(key, line, format!("{number} is not a positive number"));
                }
                parsed.map(|value| At { value, line, from_environment: false })
            }
            DeValue::String(text) if text.contains("${") => {
                let text = self.string(key, value, expected)?;
                let parsed = text.value.trim().parse().ok();
                if parsed.is_none() {
                    self.error(key, line, format!("{} is not a number", Quoted(&text.value)));
                }
                parsed.map(|value| At { value, line, from_environment: true })
            }
            other => {
                self.wrong_type(key, value, expected, other);
                None
            }
        }
    }

    fn chosen<T: Copy>(&self, key: &str, value: &Spanned<DeValue<'_>>, valid: &[(&'static str, T)]) -> Option<At<T>> {
        let line = self.line_of(value);
        let is_truth = |word: &str| word == "true" || word == "false";
        let written = |word: &str| if is_truth(word) { word.to_owned() } else { format!("\"{word}\"") };
        let all = valid.iter().map(|(word, _)| written(word)).collect::<Vec<_>>();
        let expected = match all.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => all.concat(),
        };
        let (given, quoted, from_environment) = if let DeValue::Boolean(flag) = value.get_ref() {
            (flag.to_string(), flag.to_string(), false)
        } else {
            let text = self.string(key, value, &expected)?;
            let quoted = Quoted(&text.value).to_string();
            (text.value, quoted, text.from_environment)
        };
        let may_be_truth = value.get_ref().is_bool() || from_environment;
        let found = valid.iter().find(|(word, _)| *word == given && (may_be_truth || !is_truth(word)));
        if let Some((_, meaning)) = found {
            return Some(At { value: *meaning, line, from_environment });
        }
        let text = match super::problem::nearest(&given, valid.iter().map(|(word, _)| *word)) {
            Some(word) => format!("{quoted} is not {expected}; did you mean {}?", written(word)),
            None => format!("{quoted} is not {expected}"),
        };
        self.error(key, line, text);
        None
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str, given: &DeValue<'_>) {
        let text = format!("{expected} is expected, not {}", with_article(given.type_str()));
        self.error(key, self.line_of(value), text);
    }

    fn report(&self, severity: Severity, line: Option<u32>, key: String, text: String) {
        self.document.context.report(severity, self.document.path, line, Some(key), text);
    }

    fn line_of(&self, value: &Spanned<DeValue<'_>>) -> u32 {
        self.document.line(value.span().start)
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// Backslashes in double quotes are the mistake that people with queue names make.
fn hint(complaint: &str) -> &'static str {
    if complaint.contains("escape") || complaint.contains("unicode") {
        "; a name with a backslash needs single quotes: 'private$\\orders'"
    } else {
        ""
    }
}
