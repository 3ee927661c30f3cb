use std::fmt::Write as _;

use super::problem::Quoted;

/// Puts environment variables in place of `${NAME}`; `$${` stands for `${` itself. Also says whether there were any.
pub(super) fn substitute(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<(String, bool), String> {
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
