//! What the files say: TOML with positions, read key by key.
//!
//! A [`Section`] is asked for each key that it may have. Asking checks the type, puts environment variables in, and
//! writes down what is wrong instead of stopping at it; whatever was never asked for is unknown, so there is no
//! second list of the keys that could disagree with the code.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files::{FileUse, NamedFile};
use super::problem::{Problem, Quoted, Severity, suggestion};
use super::values::{self, Size, Time};

/// Syntax errors shown of one file: the rest of them usually follow from the first.
const SYNTAX_ERRORS_SHOWN: usize = 5;

/// What all files of a configuration share while they are read.
pub(super) struct Context<'a> {
    /// Environment variables by name.
    pub(super) environment: &'a dyn Fn(&str) -> Option<String>,
    /// The directory of the main file: paths are relative to it.
    pub(super) directory: PathBuf,
    /// What was found to be wrong so far.
    pub(super) problems: RefCell<Vec<Problem>>,
    /// The files that the configuration names.
    pub(super) named_files: RefCell<Vec<NamedFile>>,
    /// Every key that was asked for.
    pub(super) known: RefCell<BTreeSet<String>>,
}

/// One file.
pub(super) struct Document<'a> {
    /// As it is shown.
    pub(super) path: &'a Path,
    /// Its text.
    pub(super) text: &'a str,
    /// What it shares with the others.
    pub(super) context: &'a Context<'a>,
}

/// A value and the line it stands in.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) line: u32,
    /// It came from the environment, wholly or in part.
    pub(super) from_environment: bool,
}

/// A value of any type as text.
pub(super) struct Rendered {
    /// For comparison: the items of a list joined by `, `.
    pub(super) plain: String,
    /// For messages.
    pub(super) shown: String,
    pub(super) line: u32,
}

impl<'a> Context<'a> {
    pub(super) fn new(directory: PathBuf, environment: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            environment,
            directory,
            problems: RefCell::default(),
            named_files: RefCell::default(),
            known: RefCell::default(),
        }
    }

    pub(super) fn report(&self, severity: Severity, file: &Path, line: Option<u32>, key: Option<String>, text: String) {
        self.problems.borrow_mut().push(Problem { severity, file: file.to_owned(), line, key, text });
    }
}

impl<'a> Document<'a> {
    /// Parses the text. `None` when it isn't TOML: what the rest of such a file means is anybody's guess.
    pub(super) fn parse(&self) -> Option<Spanned<DeTable<'a>>> {
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
    pub(super) fn root<'s>(&'s self, table: &'s DeTable<'s>) -> Section<'s> {
        Section { document: self, path: String::new(), table: Some(table), line: None, asked: RefCell::default() }
    }

    fn line(&self, offset: usize) -> u32 {
        let before = self.text.as_bytes().iter().take(offset);
        u32::try_from(before.filter(|byte| **byte == b'\n').count()).map_or(u32::MAX, |lines| lines.saturating_add(1))
    }
}

/// A table of a file, or the place where one could be.
pub(super) struct Section<'a> {
    document: &'a Document<'a>,
    /// `connectors.rabbit`; empty for the root.
    path: String,
    table: Option<&'a DeTable<'a>>,
    line: Option<u32>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Section<'a> {
    /// Whether the file has it.
    pub(super) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the file has this key in it.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.lookup(key).is_some()
    }

    /// Whether this key is a list with nothing in it.
    pub(super) fn is_empty_list(&self, key: &str) -> bool {
        self.lookup(key).and_then(|value| value.get_ref().as_array()).is_some_and(|items| items.is_empty())
    }

    /// A section inside this one. Absent ones are empty.
    pub(super) fn section(&self, key: &'static str) -> Section<'a> {
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
    pub(super) fn entries(&self) -> Vec<(&'a str, Section<'a>)> {
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

    fn inner(&self, path: String, found: Option<(&'a DeTable<'a>, u32)>) -> Section<'a> {
        let (table, line) = found.unzip();
        Section { document: self.document, path, table, line, asked: RefCell::default() }
    }

    /// A string.
    pub(super) fn text(&self, key: &'static str) -> Option<At<String>> {
        let value = self.value(key)?;
        self.string(key, value, "a string")
    }

    /// A list of strings.
    pub(super) fn texts(&self, key: &'static str) -> Option<Vec<At<String>>> {
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
    pub(super) fn flag(&self, key: &'static str) -> Option<At<bool>> {
        self.choice(key, &[("true", true), ("false", false)])
    }

    /// A whole number.
    pub(super) fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<At<u64>> {
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
    pub(super) fn size(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<At<u64>> {
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
    pub(super) fn time(&self, key: &'static str, range: RangeInclusive<Duration>) -> Option<At<Duration>> {
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
    pub(super) fn time_or_infinite(&self, key: &'static str) -> Option<At<Option<Duration>>> {
        let value = self.value(key)?;
        let text = self.string(key, value, "a time such as \"4d\" or \"infinite\"")?;
        self.parsed(key, &text, |text| match text {
            "infinite" => Ok(None),
            _ => values::parse_time(text).map(Some),
        })
    }

    /// One of a few words; `true` and `false` among them stand for the truth values.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, valid: &[(&'static str, T)]) -> Option<At<T>> {
        let value = self.value(key)?;
        self.chosen(key, value, valid)
    }

    /// Several of a few words.
    pub(super) fn choices<T: Copy>(&self, key: &'static str, valid: &[(&'static str, T)]) -> Option<Vec<At<T>>> {
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
    pub(super) fn path(&self, key: &'static str, used_as: FileUse) -> Option<At<PathBuf>> {
        let text = self.text(key)?;
        if text.value.is_empty() {
            self.error(key, text.line, "an empty path".to_owned());
            return None;
        }
        let path = self.document.context.directory.join(&text.value);
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

    /// A key whose value is not looked into.
    pub(super) fn anything(&self, key: &'static str) {
        let _ = self.value(key);
    }

    /// Reads with a function of the caller, whose error completes the problem.
    pub(super) fn parsed<T, E: std::fmt::Display>(
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

    pub(super) fn error(&self, key: &str, line: u32, text: String) {
        self.report(Severity::Error, Some(line), self.path_of(key), text);
    }

    pub(super) fn warning(&self, key: &str, line: u32, text: String) {
        self.report(Severity::Warning, Some(line), self.path_of(key), text);
    }

    /// A key that has to be there and is not.
    pub(super) fn missing(&self, key: &str, remedy: &str) {
        self.fault(key, format!("is missing; {remedy}"));
    }

    /// An error of a key, present or not.
    pub(super) fn fault(&self, key: &str, text: String) {
        let line = self.lookup(key).map(|value| self.line_of(value)).or(self.line);
        self.report(Severity::Error, line, self.path_of(key), text);
    }

    /// An error of the section itself.
    pub(super) fn fault_here(&self, text: String) {
        self.report(Severity::Error, self.line, self.path.clone(), text);
    }

    /// Reports the keys that nobody asked for.
    pub(super) fn finish(&self) {
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
    pub(super) fn rendered(&self, dotted: &str) -> Option<Rendered> {
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
    pub(super) fn is_faulty(&self, dotted: &str) -> bool {
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

/// Puts environment variables in place of `${NAME}`; `$${` stands for `${` itself. Also says whether there were any.
fn substitute(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<(String, bool), String> {
    let mut result = String::with_capacity(text.len());
    let mut substituted = false;
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, variable) = (&rest[..start], &rest[start + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            let _ = write!(result, "{before}${{");
            rest = variable;
            continue;
        }
        let Some((name, after)) = variable.split_once('}') else {
            return Err("\"${\" without \"}\"; write \"$${\" for the characters themselves".to_owned());
        };
        let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !is_name {
            return Err(format!("{} is not the name of an environment variable", Quoted(name)));
        }
        let Some(value) = environment(name) else {
            return Err(format!("the environment variable {name} is not set"));
        };
        result.push_str(before);
        result.push_str(&value);
        substituted = true;
        rest = after;
    }
    result.push_str(rest);
    Ok((result, substituted))
}

/// Backslashes in double quotes are the mistake that people with queue names make.
fn hint(complaint: &str) -> &'static str {
    if complaint.contains("escape") || complaint.contains("unicode") {
        "; a name with a backslash needs single quotes: 'private$\\orders'"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variables_are_put_in_once() {
        let environment = |name: &str| match name {
            "HOST" => Some("rabbit1".to_owned()),
            "NESTED" => Some("${HOST}".to_owned()),
            _ => None,
        };
        let put_in = |text: &str| substitute(text, &environment);
        assert_eq!(put_in("amqp://${HOST}:5672"), Ok(("amqp://rabbit1:5672".to_owned(), true)));
        assert_eq!(put_in(r"private$\orders"), Ok((r"private$\orders".to_owned(), false)));
        assert_eq!(put_in("${NESTED}"), Ok(("${HOST}".to_owned(), true)));
        assert_eq!(put_in("a$${HOST}b"), Ok(("a${HOST}b".to_owned(), false)));
        assert_eq!(put_in("${PORT}"), Err("the environment variable PORT is not set".to_owned()));
        assert_eq!(put_in("${A B}"), Err("\"A B\" is not the name of an environment variable".to_owned()));
        assert!(put_in("${HOST").is_err());
    }
}
