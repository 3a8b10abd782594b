//! The page of the configuration, made from the code: which keys there are and of which kind from
//! the structs that are read, what they mean and their defaults from the commented files, which
//! tests of the drivers keep equal to those structs.

use std::collections::{BTreeMap, BTreeSet};
use std::{env, fs};

use quote::ToTokens;
use suture_drivers::config::shown::ShownKey;
use suture_drivers::config::{AgentConfig, CoordinatorConfig};

use super::{page, read, root};

const PAGE: &str = "configuration.md";

/// What stands before the tables.
const HEAD: &str = r#"# Configuration

<!-- Written by a test: SUTURE_BLESS=1 cargo test -p suture --test suite handbook::configuration -->

Every key of both daemons. A configuration is TOML; an unknown key and a value that makes no sense are refused with their line. Which file a daemon reads: [install.md](install.md#where-a-configuration-is-looked-for). `suture config check` says whether it can be used, `suture config show` prints it with all defaults.

| kind | is written like |
|---|---|
| size | `"64MiB"`, `"4096B"` |
| rate | per second: `"200Mbit"` in bits, `"25MB"` in bytes |
| duration | `"500ms"`, `"30s"`, `"10min"`, `"2h"`, `"7d"`, `"4w"` |
| address | IP address and port: `"10.0.0.1:7400"` |
| path | used as it is: no shell replaces `~` or `$NAME`; one that does not begin with `/` is relative to the directory in which the daemon was started, and the log says where its `data_dir` is then |

A daemon reads its configuration when it starts, and again on SIGHUP (`systemctl reload`). A reload changes the keys that have more than `no` in the last column; the log names other keys that changed, which take effect after a restart ([why](install.md#what-takes-a-restart)). A configuration that cannot be used changes nothing. Restarting a coordinator loses nothing: running repairs start again, and agents keep their chunks and rejoin.
"#;

/// How keys are written of which the type says only that they are text.
const WRITTEN: [(&str, &str); 14] = [
    ("advertise", "address"),
    ("coordinator", "HOST or HOST:PORT"),
    ("hdfs.pool", "block pool"),
    ("hdfs.user", "user"),
    ("name", "name: 1 to 128 bytes without spaces"),
    ("rack", "name"),
    ("throttle.cap", "rate or `off`"),
    ("throttle.floor", "rate or `10%`"),
    ("throttle.keep", "part like `30%`, rate or `off`"),
    ("throttle.nodes", "rates by name of node"),
    ("throttle.p99", "duration up to `1min`, or `off`"),
    ("throttle.racks", "rates by name of rack"),
    ("throttle.total", "rate or `off`"),
    ("throttle.window", "cron expression;time zone, or `off`"),
];

/// A key as a commented file has it.
struct Told {
    table: String,
    key: String,
    value: String,
    is_set: bool,
    /// Empty where the key before it says it for both.
    meaning: String,
}

impl Told {
    fn path(&self) -> String {
        if self.table.is_empty() {
            self.key.clone()
        } else {
            format!("{}.{}", self.table, self.key)
        }
    }
}

/// The keys of a commented file, in order.
fn told(file: &str) -> Vec<Told> {
    let text = read(&root().join("config").join(file));
    let (mut table, mut meaning, mut keys) = (String::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let is_key = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if line.is_empty() {
            meaning.clear();
        } else if let Some(name) = line.strip_prefix('[') {
            table = name.trim_end_matches(']').to_owned();
            meaning.clear();
        } else if let Some((key, value)) = bare.split_once(" = ").filter(|(key, _)| is_key(key)) {
            keys.push(Told {
                table: table.clone(),
                key: key.to_owned(),
                value: value.to_owned(),
                is_set: bare == line,
                meaning: std::mem::take(&mut meaning).join(" "),
            });
        } else {
            meaning.push(bare.to_owned());
        }
    }
    keys
}

/// The structs and enums of the configuration.
#[derive(Default)]
struct Types {
    structs: BTreeMap<String, Vec<syn::Field>>,
    enums: BTreeMap<String, Vec<String>>,
}

impl Types {
    fn read() -> Types {
        let mut types = Types::default();
        for file in ["config.rs", "config/hdfs.rs", "config/rates.rs", "config/throttle.rs"] {
            let path = root().join("crates/suture-drivers/src").join(file);
            for item in syn::parse_file(&read(&path)).expect("it is Rust").items {
                match item {
                    syn::Item::Struct(item) => drop(
                        types
                            .structs
                            .insert(item.ident.to_string(), item.fields.into_iter().collect()),
                    ),
                    syn::Item::Enum(item) => {
                        let names =
                            item.variants.iter().map(|v| v.ident.to_string().to_lowercase());
                        types.enums.insert(item.ident.to_string(), names.collect());
                    }
                    _ => {}
                }
            }
        }
        types
    }

    /// Every key of a struct and of the tables in it, with its kind.
    fn kinds(&self, of: &str, table: &str, into: &mut BTreeMap<String, String>) {
        for field in &self.structs[of] {
            let name = field.ident.as_ref().expect("it has a name").to_string();
            let declared = field.ty.to_token_stream().to_string().replace(' ', "");
            if self.structs.contains_key(&declared) {
                assert!(table.is_empty(), "{table}.{name} is a table in a table");
                self.kinds(&declared, &name, into);
                continue;
            }
            let path = if table.is_empty() { name } else { format!("{table}.{name}") };
            let kind = self.kind(&path, &declared, read_by(field).as_deref());
            into.insert(path, kind);
        }
    }

    fn kind(&self, path: &str, declared: &str, read_by: Option<&str>) -> String {
        if let Some((_, kind)) = WRITTEN.iter().find(|(key, _)| *key == path) {
            return (*kind).to_owned();
        }
        let kind = match (read_by, declared) {
            (Some("address" | "some_address"), _) => "address",
            (Some("duration"), _) => "duration",
            (Some("duration_or_off"), _) => "duration or `off`",
            (Some("rate"), _) => "rate",
            (Some("rate_or_off"), _) => "rate or `off`",
            (Some("size" | "size_or_none"), _) => "size",
            (Some("on_or_off"), _) => "`on` or `off`",
            (Some("dscp_or_off"), _) => "DSCP mark or `off`",
            (Some("policy"), _) => "policy",
            (None, "bool") => "`true` or `false`",
            (None, "PathBuf" | "Option<PathBuf>") => "path",
            (None, "Option<usize>" | "Option<f64>") => "number",
            (None, name) if self.enums.contains_key(name) => {
                let names: Vec<String> =
                    self.enums[name].iter().map(|name| format!("`{name}`")).collect();
                return names.join(", ");
            }
            _ => panic!("how {path} is written is not known: say it in WRITTEN ({declared})"),
        };
        kind.to_owned()
    }
}

/// The function that reads a field.
fn read_by(field: &syn::Field) -> Option<String> {
    let serde = field.attrs.iter().find(|attribute| attribute.path().is_ident("serde"))?;
    let text = serde.to_token_stream().to_string();
    let (_, rest) = text.split_once("deserialize_with")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// What changes of a key without a restart.
fn live(path: &str) -> &'static str {
    match path {
        "credentials" => "its files are read again when they change",
        "repair_cap" => "by SIGHUP; a lower one by `suture repair throttle --node`",
        path if path.starts_with("throttle.") => "by SIGHUP, or `suture repair throttle`",
        "backup.every" => "by SIGHUP",
        _ => "no",
    }
}

/// The tables of one daemon.
fn rows(file: &str, of: &str, shown: Vec<ShownKey>) -> String {
    let told = told(file);
    let mut kinds = BTreeMap::new();
    Types::read().kinds(of, "", &mut kinds);
    let paths: Vec<String> = told.iter().map(Told::path).collect();
    let (said, read): (BTreeSet<_>, BTreeSet<_>) = (paths.iter().collect(), kinds.keys().collect());
    let differ: Vec<_> = said.symmetric_difference(&read).collect();
    assert!(differ.is_empty(), "config/{file} and {of} have not the same keys: {differ:?}");
    assert_eq!(
        paths,
        shown.iter().map(ShownKey::path).collect::<Vec<_>>(),
        "what is shown of {of}"
    );
    let (mut text, mut table, mut before) = (String::new(), None, String::new());
    for key in told {
        let Told { key: name, value, is_set, meaning, .. } = &key;
        if table.as_ref() != Some(&key.table) {
            let heading = if key.table.is_empty() { "" } else { &format!("### [{}]\n", key.table) };
            text += &format!(
                "\n{heading}| key | kind | default | meaning | without a restart |\n|---|---|---|---|---|\n"
            );
            table = Some(key.table.clone());
        }
        let default =
            if *is_set { format!("`{value}`") } else { format!("not set; like `{value}`") };
        let (kind, live) = (&kinds[&key.path()], live(&key.path()));
        let meaning = match meaning.as_str() {
            "" => format!("as `{before}`"),
            // A path of the repository is a page of the book.
            told => told
                .replace("docs/monitoring.md", "[monitoring.md](monitoring.md)")
                .replace("docs/hdfs.md", "[hdfs.md](hdfs.md)"),
        };
        assert!(!meaning.contains("docs/"), "{name}: make a link of the path");
        assert!(!meaning.contains('|') && !value.contains('|'), "{name} would break the table");
        text += &format!("| `{name}` | {kind} | {default} | {meaning} | {live} |\n");
        before.clone_from(name);
    }
    text
}

fn written() -> String {
    let coordinator =
        rows("coordinator.toml", "CoordinatorConfig", CoordinatorConfig::default().shown());
    let agent = rows("agent.toml", "AgentConfig", AgentConfig::default().shown());
    format!("{HEAD}\n## The coordinator\n{coordinator}\n## An agent\n{agent}")
}

#[test]
fn what_is_said_of_keys_is_of_keys_that_there_are() {
    let written = written();
    for (path, _) in WRITTEN {
        let key = path.rsplit('.').next().unwrap();
        assert!(written.contains(&format!("| `{key}` |")), "there is no key {path}");
    }
    for path in ["credentials", "repair_cap", "throttle.cap"] {
        assert_ne!(live(path), "no");
        assert!(written.contains(live(path)), "there is no key {path}");
    }
}

#[test]
fn the_page_of_the_configuration_is_what_the_code_says() {
    let written = written();
    if env::var_os("SUTURE_BLESS").is_some() {
        return fs::write(root().join("docs").join(PAGE), written)
            .expect("the page can be written");
    }
    let hint = "docs/configuration.md is stale; SUTURE_BLESS=1 cargo test -p suture --test suite handbook::configuration writes it";
    assert!(page(PAGE) == written, "{hint}");
}

#[test]
fn the_defaults_on_the_page_are_those_of_the_code() {
    let file = |name: &str| root().join("config").join(name);
    let coordinator = CoordinatorConfig::read(&file("coordinator.toml")).unwrap();
    assert_eq!(coordinator, CoordinatorConfig::default());
    assert_eq!(AgentConfig::read(&file("agent.toml")).unwrap(), AgentConfig::default());
}
