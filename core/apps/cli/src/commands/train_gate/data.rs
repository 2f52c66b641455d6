//! Training data of `train-gate`: prompts labeled with an expert, as JSON, JSON lines or CSV.

use crate::failure::Failure;
use crate::prompt;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// A prompt and its expert.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatePrompt {
    /// The prompt.
    pub(crate) prompt: String,
    /// Its expert, counted from 0.
    pub(crate) expert: usize,
}

/// Reads the rows of a file; its extension determines the format.
pub(crate) fn read(path: &Path) -> Result<Vec<GatePrompt>, Failure> {
    let text = prompt::read_file(path)?;
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let rows = match ending.as_deref() {
        Some("json") => of_json(&text),
        Some("jsonl" | "ndjson") => of_lines(&text),
        Some("csv") => of_csv(&text),
        _ => Err("unknown format: the name must end in .json, .jsonl or .csv".to_owned()),
    };
    let rows = rows.map_err(|reason| Failure::about(path.display(), reason))?;
    if rows.is_empty() {
        let reason = "the file has no rows; expected prompts with the number of their expert";
        return Err(Failure::about(path.display(), reason));
    }
    if let Some(empty) = rows.iter().position(|row| row.prompt.trim().is_empty()) {
        return Err(Failure::about(path.display(), format!("row {}: the prompt is empty", empty + 1)));
    }
    Ok(rows)
}

/// Parses `{"rows": [{"prompt": .., "expert": ..}]}`, the format of mistral.rs, or only the list.
fn of_json(text: &str) -> Result<Vec<GatePrompt>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let rows = match value {
        Value::Object(mut table) => table.remove("rows").ok_or("the list `rows` is missing")?,
        list => list,
    };
    let Value::Array(rows) = rows else { return Err("expected a list of rows".to_owned()) };
    let row = |(at, row)| serde_json::from_value(row).map_err(|error| format!("row {}: {error}", at + 1));
    rows.into_iter().enumerate().map(row).collect()
}

fn of_lines(text: &str) -> Result<Vec<GatePrompt>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let row = |(at, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1));
    lines.map(row).collect()
}

/// Parses columns `prompt` and `expert`, in any order, below a line with their names (RFC 4180).
fn of_csv(text: &str) -> Result<Vec<GatePrompt>, String> {
    let mut records = csv_records(text)?.into_iter();
    let (_, names) = records.next().ok_or("the first line must name the columns: prompt,expert")?;
    let column = |wanted: &str| names.iter().position(|name| name.trim() == wanted);
    let (Some(prompt), Some(expert), 2) = (column("prompt"), column("expert"), names.len()) else {
        return Err(format!("its columns are {}; expected prompt and expert", names.join(", ")));
    };
    let row = |(line, fields): (usize, Vec<String>)| {
        let (Some(prompt), Some(expert), 2) = (fields.get(prompt), fields.get(expert), fields.len()) else {
            return Err(format!("line {line}: {} fields instead of 2", fields.len()));
        };
        let number = expert.trim().parse();
        let expert = number.map_err(|_| format!("line {line}: `{expert}` is not the number of an expert"))?;
        Ok(GatePrompt { prompt: prompt.clone(), expert })
    };
    records.map(row).collect()
}

/// The fields of each record and the line at which it begins.
fn csv_records(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
    let mut records = Vec::new();
    let (mut line, mut begun) = (1, 1);
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    while let Some(next) = rest.next() {
        line += usize::from(next == '\n');
        match next {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            '"' => {
                return Err(format!(
                    "line {line}: a quotation mark inside a field; quote the field and double the mark"
                ));
            }
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            '\r' if !quoted && rest.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                fields.push(std::mem::take(&mut field));
                let record = std::mem::take(&mut fields);
                if record.len() > 1 || record.iter().any(|field| !field.trim().is_empty()) {
                    records.push((begun, record));
                }
                begun = line;
            }
            other => field.push(other),
        }
    }
    if quoted {
        return Err(format!("line {begun}: a quoted field does not end"));
    }
    if !field.is_empty() || !fields.is_empty() {
        fields.push(field);
        records.push((begun, fields));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(pairs: &[(&str, usize)]) -> Vec<GatePrompt> {
        pairs
            .iter()
            .map(|(prompt, expert)| GatePrompt { prompt: (*prompt).into(), expert: *expert })
            .collect()
    }

    #[test]
    fn three_formats_say_the_same() {
        let wanted = rows(&[("a, \"b\"\nc", 1), ("d", 0)]);
        let list = r#"[{"prompt": "a, \"b\"\nc", "expert": 1}, {"prompt": "d", "expert": 0}]"#;
        assert_eq!(of_json(list).unwrap(), wanted);
        assert_eq!(of_json(&format!(r#"{{"rows": {list}}}"#)).unwrap(), wanted);
        let lines =
            "{\"prompt\": \"a, \\\"b\\\"\\nc\", \"expert\": 1}\n\n{\"expert\": 0, \"prompt\": \"d\"}\n";
        assert_eq!(of_lines(lines).unwrap(), wanted);
        for end in ["\n", "\r\n", ""] {
            let csv = format!("expert,prompt\r\n1,\"a, \"\"b\"\"\nc\"\n\n0,d{end}");
            assert_eq!(of_csv(&csv).unwrap(), wanted, "{csv:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_row() {
        let refused = |made: Result<Vec<GatePrompt>, String>, said: &str| {
            let error = made.unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        refused(of_json("{}"), "`rows` is missing");
        refused(of_json(r#"[{"prompt": "a", "expert": 0}, {"prompt": "b", "expert": -1}]"#), "row 2");
        refused(of_json(r#"[{"prompt": "a", "expert": 0, "image_urls": ["x"]}]"#), "image_urls");
        refused(of_lines("{\"prompt\": \"a\"}"), "line 1");
        refused(of_csv(""), "name the columns");
        refused(of_csv("prompt,label\na,1"), "prompt, label");
        refused(of_csv("prompt,expert\na,1\nb"), "line 3: 1 fields");
        refused(of_csv("prompt,expert\na,x"), "line 2: `x`");
        refused(of_csv("prompt,expert\n\"a,1\n"), "does not end");
        refused(of_csv("prompt,expert\na\"b,1\n"), "inside a field");
    }
}
