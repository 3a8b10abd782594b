//! The page `docs/json.md`, read as the rules that it is: which fields each command prints, of
//! which type, and which of them may be null or absent.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// What `format` is where a section says nothing else.
const FORMAT: &str = "suture-1";

/// One field, by a row of a table.
#[derive(Clone, Debug)]
struct ListedField {
    /// As the page has it: `integer`, `list of strings`, `[node](#node)`.
    kind: String,
    may_be_null: bool,
    may_be_absent: bool,
}

/// What stands below one heading.
#[derive(Clone, Debug, Default)]
struct Section {
    fields: BTreeMap<String, ListedField>,
    /// The heading of the section whose fields it has too.
    like: Option<String>,
    format: Option<String>,
}

/// All of the page, by its headings.
pub struct JsonPage {
    sections: BTreeMap<String, Section>,
}

impl JsonPage {
    /// Reads the page.
    pub fn read() -> JsonPage {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
        let text = fs::read_to_string(path).expect("the page");
        let (mut sections, mut name) = (BTreeMap::<String, Section>::new(), String::new());
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
                name = heading.to_string();
                let before = sections.insert(name.clone(), Section::default());
                assert!(before.is_none(), "'{name}' is there twice");
                continue;
            }
            let section = sections.entry(name.clone()).or_default();
            if let Some(rest) = line.strip_prefix("The fields of [") {
                section.like = rest.split(']').next().map(str::to_owned);
            }
            if let Some((_, rest)) = line.split_once("Format: `") {
                section.format = rest.split('`').next().map(str::to_owned);
            }
            if line.starts_with("| `") {
                section.add_row(line);
            }
        }
        JsonPage { sections }
    }

    /// Whether there is a section of that heading.
    pub fn has(&self, heading: &str) -> bool {
        self.sections.contains_key(heading)
    }

    /// The names of all fields.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.sections.values().flat_map(|section| section.fields.keys())
    }

    /// Compares what a command printed with the section of that heading.
    pub fn check(&self, heading: &str, printed: &Value) {
        let section = self.section(heading);
        let format = section.format.as_deref().unwrap_or(FORMAT);
        let mut wrong = Vec::new();
        if printed["format"] != format {
            wrong.push(format!("format is {}, not {format}", printed["format"]));
        }
        let mut fields = self.fields(heading);
        let listed =
            ListedField { kind: "string".into(), may_be_null: false, may_be_absent: false };
        fields.entry("format".into()).or_insert(listed);
        self.compare(&fields, "", printed, &mut wrong);
        assert!(wrong.is_empty(), "docs/json.md, '{heading}': {}\n{printed:#}", wrong.join("\n"));
    }

    fn section(&self, heading: &str) -> &Section {
        self.sections.get(heading).unwrap_or_else(|| panic!("docs/json.md has no '{heading}'"))
    }

    /// A section's own fields, and those of the section that it is like.
    fn fields(&self, heading: &str) -> BTreeMap<String, ListedField> {
        let section = self.section(heading);
        let mut fields = section.like.as_ref().map_or_else(BTreeMap::new, |of| self.fields(of));
        fields.extend(section.fields.clone());
        fields
    }

    fn compare(
        &self,
        fields: &BTreeMap<String, ListedField>,
        path: &str,
        value: &Value,
        wrong: &mut Vec<String>,
    ) {
        let Some(object) = value.as_object() else {
            return wrong.push(format!("{path} is no object: {value}"));
        };
        for name in object.keys().filter(|name| !fields.contains_key(*name)) {
            wrong.push(format!("{path}{name} is printed and not listed"));
        }
        for (name, field) in fields {
            match object.get(name) {
                None if field.may_be_absent => {}
                None => wrong.push(format!("{path}{name} is listed and not printed")),
                Some(Value::Null) if field.may_be_null => {}
                Some(found) => {
                    self.compare_kind(&field.kind, &format!("{path}{name}"), found, wrong)
                }
            }
        }
    }

    /// Whether a value is of that kind.
    fn compare_kind(&self, kind: &str, path: &str, value: &Value, wrong: &mut Vec<String>) {
        if let Some(items) = kind.strip_prefix("list of ") {
            let Some(list) = value.as_array() else {
                return wrong.push(format!("{path} is no list: {value}"));
            };
            for (at, item) in list.iter().enumerate() {
                self.compare_kind(one_of(items), &format!("{path}[{at}]"), item, wrong);
            }
        } else if let Some(values) = kind.strip_prefix("map of ") {
            let Some(map) = value.as_object() else {
                return wrong.push(format!("{path} is no map: {value}"));
            };
            for (key, value) in map {
                self.compare_kind(one_of(values), &format!("{path}.{key}"), value, wrong);
            }
        } else if let Some((first, second)) = kind.split_once(" or ") {
            let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
            self.compare_kind(first, path, value, &mut of_first);
            self.compare_kind(second, path, value, &mut of_second);
            if !of_second.is_empty() {
                wrong.append(&mut of_first);
            }
        } else if let Some(rest) = kind.strip_prefix('[') {
            let heading = rest.split(']').next().unwrap_or(rest);
            self.compare(&self.fields(heading), &format!("{path}."), value, wrong);
        } else if !is_of(kind, value) {
            wrong.push(format!("{path} is listed as {kind} and printed as {value}"));
        }
    }
}

impl Section {
    /// A row of four cells: names, type, meaning, when it is null or absent. Tables that explain
    /// words have two.
    fn add_row(&mut self, line: &str) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, kind, _, missing] = cells[..] else { return };
        // The unit stands in brackets, and so do the targets of links.
        let kind = match kind.split_once(" (") {
            Some((kind, _)) => kind,
            None => kind,
        };
        let field = ListedField {
            kind: kind.to_owned(),
            may_be_null: missing.contains("null"),
            may_be_absent: missing.contains("absent"),
        };
        for name in names.split('`').skip(1).step_by(2) {
            let before = self.fields.insert(name.to_owned(), field.clone());
            assert!(before.is_none(), "{name} is listed twice: {line}");
        }
    }
}

/// The kind of one of several: `strings` are each a `string`.
fn one_of(several: &str) -> &str {
    several.strip_suffix('s').unwrap_or(several)
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "list" => value.is_array(),
        "value" => true,
        _ => panic!("docs/json.md has a type '{kind}'"),
    }
}
