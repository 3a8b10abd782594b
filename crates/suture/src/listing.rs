//! What is stored under which names: one object, or all of a folder's.
//!
//! Place: beside the commands on objects. The store knows names only: a folder is what the names
//! before their slashes have in common. Names are taken as they are, without wildcards.

use anyhow::{Error, Result};
use suture_drivers::control::client::{Client, refusal, stream_ended};
use suture_drivers::control::{convert, proto};
use suture_drivers::metadata::Object;
use suture_edge::error::{ErrorKind, bad_input, kind, quoted};
use suture_terminal::output::counted;

/// All objects whose names begin like this, by name.
///
/// # Errors
/// When the coordinator goes away.
pub async fn list(client: &mut Client, prefix: &str) -> Result<Vec<Object>> {
    let request = proto::ListRequest { prefix: prefix.to_string() };
    let mut pages = client.list(request).await.map_err(refusal)?.into_inner();
    let mut objects = Vec::new();
    while let Some(page) = pages.message().await.map_err(stream_ended)? {
        for object in page.objects {
            objects.push(convert::decode_object(Some(object))?);
        }
    }
    Ok(objects)
}

/// The object of this name, if there is one.
///
/// # Errors
/// When the coordinator goes away.
pub async fn find(client: &mut Client, name: &str) -> Result<Option<Object>> {
    let request = proto::ListRequest { prefix: name.to_string() };
    let mut pages = client.list(request).await.map_err(refusal)?.into_inner();
    let page = pages.message().await.map_err(stream_ended)?.unwrap_or_default();
    // Of all names that begin like it, it is the first.
    let first = page.objects.into_iter().next();
    let first = first.map(|object| convert::decode_object(Some(object))).transpose()?;
    Ok(first.filter(|object| object.name == name))
}

/// The objects that `--recursive` selects, by name.
///
/// # Errors
/// Bad input when there are none; a failure when the coordinator goes away.
pub async fn list_selected(client: &mut Client, prefix: &str) -> Result<Vec<Object>> {
    let mut objects = list(client, prefix).await?;
    objects.retain(|object| is_selected(prefix, &object.name));
    if objects.is_empty() {
        let (name, folder) = (quoted(prefix), quoted(&folder_prefix(prefix)));
        return Err(bad_input(format!(
            "there is no object {name}, and none begins with {folder} (suture ls lists them)"
        )));
    }
    Ok(objects)
}

/// Whether `--recursive` selects a name: `PREFIX` itself, or what is below it.
pub fn is_selected(prefix: &str, name: &str) -> bool {
    !prefix.is_empty() && (name == prefix || name.starts_with(&folder_prefix(prefix)))
}

/// What the names of a folder begin with.
pub fn folder_prefix(folder: &str) -> String {
    format!("{}/", folder.strip_suffix('/').unwrap_or(folder))
}

/// The refusal of a name that has no object, with what might have been meant.
pub async fn explain_missing(client: &mut Client, name: &str, error: Error) -> Error {
    if kind(&error) != ErrorKind::BadInput || name.is_empty() {
        return error;
    }
    hint(name, count_below(client, name).await).map_or(error, bad_input)
}

/// The same where only one object can be asked for.
pub async fn explain_missing_one(client: &mut Client, name: &str, error: Error) -> Error {
    if kind(&error) != ErrorKind::BadInput || name.is_empty() {
        return error;
    }
    let folder = folder_of_others(name, count_below(client, name).await);
    folder.map_or(error, |why| bad_input(format!("{why} (suture ls lists them)")))
}

async fn count_below(client: &mut Client, name: &str) -> u64 {
    list(client, &folder_prefix(name)).await.map_or(0, |objects| objects.len() as u64)
}

/// That there is no object of a name, but so many below it; nothing where there are none.
fn folder_of_others(name: &str, below: u64) -> Option<String> {
    let begin = if below == 1 { "begins" } else { "begin" };
    let (objects, folder) = (counted(below, "object"), quoted(&folder_prefix(name)));
    let name = quoted(name);
    (below > 0).then(|| format!("there is no object {name}, but {objects} {begin} with {folder}"))
}

/// What may be meant by a name that has no object, where so many begin with `NAME/`.
fn hint(name: &str, below: u64) -> Option<String> {
    if let Some(why) = folder_of_others(name, below) {
        return Some(format!("{why}: give --recursive"));
    }
    let shown = quoted(name);
    let before = &name[..name.find(['*', '?', '['])?];
    let as_it_is = format!("there is no object {shown}: names are taken as they are");
    Some(match before.rfind('/') {
        None | Some(0) => format!("{as_it_is} (suture ls lists them)"),
        Some(end) => {
            let (begin, folder) = (quoted(&before[..=end]), quoted(&before[..end]));
            format!("{as_it_is}; for all that begin with {begin}, give {folder} and --recursive")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_selected_with_all_below_it_and_nothing_that_only_begins_like_it() {
        let selected = |prefix| {
            let names = ["", "/abs", "a", "a/", "a/b", "a/b/c", "a//d", "ab", "ab/c", "b/a"];
            names.into_iter().filter(|name| is_selected(prefix, name)).collect::<Vec<_>>()
        };
        assert_eq!(selected("a"), ["a", "a/", "a/b", "a/b/c", "a//d"]);
        assert_eq!(selected("a/"), ["a/", "a/b", "a/b/c", "a//d"], "not the object of that name");
        assert_eq!(selected("a/b"), ["a/b", "a/b/c"]);
        assert_eq!(selected("a*"), [""; 0], "no wildcards");
        assert_eq!(selected("/"), ["/abs"]);
        assert_eq!(selected(""), [""; 0], "never everything");
    }

    #[test]
    fn a_hint_says_what_may_be_meant() {
        let ends = |name, below, end: &str| {
            let hint = hint(name, below).unwrap();
            assert!(hint.ends_with(end), "{hint}");
        };
        ends("a", 2, "'a', but 2 objects begin with 'a/': give --recursive");
        ends("a/", 1, "but 1 object begins with 'a/': give --recursive");
        ends("a/b/*", 0, "for all that begin with 'a/b/', give 'a/b' and --recursive");
        ends("a/b*/c", 0, "for all that begin with 'a/', give 'a' and --recursive");
        assert_eq!(
            folder_of_others("a", 6).unwrap(),
            "there is no object 'a', but 6 objects begin with 'a/'"
        );
        assert_eq!(folder_of_others("a", 0), None);
        ends("b*", 0, "names are taken as they are (suture ls lists them)");
        assert_eq!(hint("a", 0), None);
    }
}
