//! What is kept, found again, refused and removed of a folder.

use suture_edge::error::kind;
use tempfile::TempDir;

use super::*;
use crate::reproduce::table::{Group, PanelTable};
use crate::reproduce::tests::{SIMULATED, panel};

fn configuration() -> Configuration {
    Configuration {
        format: "suture-reproduce-1".into(),
        program: "c0ffee00".into(),
        version: "9.8.7".into(),
        quick: true,
        seeds: 1,
        traces: "models".into(),
        testbed: false,
    }
}

fn open(place: &TempDir, holdings: Holdings) -> Result<Folder> {
    Folder::open(place.path(), configuration(), holdings)
}

/// A table of an experiment: two values of everything.
fn table_of(experiment: &PaperExperiment) -> Table {
    let group = |spec: &PanelSpec, label: &str| Group {
        label: label.into(),
        bound: None,
        cells: spec
            .series
            .iter()
            .map(|series| Cell {
                series: series.name.into(),
                policy: series.policy.into(),
                values: vec![1.5, 2.0],
                refused: None,
            })
            .collect(),
    };
    let panel = |spec: &PanelSpec| PanelTable {
        title: spec.title.into(),
        what: "time".into(),
        unit: "s".into(),
        is_logarithmic: false,
        bound_name: None,
        groups: spec.points.iter().map(|point| group(spec, point.label)).collect(),
    };
    Table { panels: experiment.panels.iter().map(panel).collect() }
}

fn keep(folder: &Folder) -> Finished {
    let experiment = papers::find("car/fig8").unwrap()[0];
    let outcome = FinishedTables {
        table: table_of(experiment),
        starts: vec![TraceStart { panel: "a&b".into(), label: "x".into(), seed: 1, second: 7 }],
        seconds: 2.5,
        machine: "2 x processor".into(),
    };
    let finished = Finished { experiment, outcome, emulation: None };
    folder.keep(&finished).unwrap();
    finished
}

/// The error that it gives, which is one of the input.
fn refusal<T>(result: Result<T>) -> String {
    let Err(error) = result else { panic!("it is not refused") };
    assert_eq!(kind(&error), suture_edge::error::ErrorKind::BadInput);
    format!("{error:#}")
}

#[test]
fn what_is_kept_is_found_again_with_all_of_it() {
    let place = TempDir::new().unwrap();
    let folder = open(&place, Holdings::Refused).unwrap();
    assert!(folder.all_finished().unwrap().is_empty());
    let kept = keep(&folder);
    let folder = open(&place, Holdings::Kept).unwrap();
    let found = folder.all_finished().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].experiment.name(), "car/fig8");
    assert_eq!(found[0].outcome.table, kept.outcome.table);
    assert_eq!(found[0].outcome.starts, kept.outcome.starts);
    assert_eq!(found[0].outcome.seconds, 2.5);
    assert!(found[0].emulation.is_none());
    // What is emulated comes to what was simulated, and goes with it.
    let more = Configuration { testbed: true, ..configuration() };
    let folder = Folder::open(place.path(), more, Holdings::Kept).unwrap();
    assert_eq!(folder.all_finished().unwrap().len(), 1);
    assert!(open(&place, Holdings::Kept).unwrap().configuration().testbed);
    let emulation = FinishedEmulation {
        program: configuration().program,
        emulated: Emulated::default(),
        seconds: 60.0,
    };
    folder.keep_emulation(kept.experiment, &emulation).unwrap();
    let found = folder.all_finished().unwrap();
    assert_eq!(found[0].emulation.as_ref().map(|found| found.seconds), Some(60.0));
    keep(&folder);
    assert!(folder.all_finished().unwrap()[0].emulation.is_none());
    folder.keep_emulation(kept.experiment, &emulation).unwrap();
    // What another program measured is not finished, and is named.
    let program = "decaf000".to_string();
    let other = Configuration { program: program.clone(), ..configuration() };
    let folder = Folder::open(place.path(), other, Holdings::Kept).unwrap();
    assert!(folder.all_finished().unwrap().is_empty());
    assert_eq!(folder.outdated(&[])[0].name(), "car/fig8");
    let kept = keep(&folder);
    assert!(folder.outdated(std::slice::from_ref(&kept)).is_empty());
    let emulation = FinishedEmulation { program: "c0ffee00".into(), ..emulation };
    folder.keep_emulation(kept.experiment, &emulation).unwrap();
    assert!(folder.all_finished().unwrap()[0].emulation.is_none(), "not by this program");
}

#[test]
fn settings_are_kept_as_they_were_measured() {
    let experiment = papers::find("chameleonec/fig24").unwrap()[0];
    let kept = |quick| {
        let panels = as_measured(experiment, Configuration { quick, ..configuration() }.extent());
        panels.unwrap()[0]["points"][3]["setting"].clone()
    };
    assert_eq!(
        (&kept(false)["lost"], &kept(true)["lost"]),
        (&json!({ "Chunks": 200 }), &json!({ "Chunks": 50 }))
    );
    assert_eq!(
        (&kept(false)["foreground"][1], &kept(true)["foreground"][1]),
        (&json!(64), &json!(16))
    );
    assert_eq!(kept(false)["link"], kept(true)["link"]);
}

#[test]
fn what_was_measured_with_other_settings_is_not_finished() {
    let place = TempDir::new().unwrap();
    let folder = open(&place, Holdings::Refused).unwrap();
    keep(&folder);
    let path = place.path().join("car/fig8.json");
    let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let changes: [fn(&mut Value); 3] = [
        |panel| panel["points"][0]["setting"]["nodes"] = 3.into(),
        |panel| panel["series"][0]["policy"] = "cr".into(),
        |panel| panel["metric"] = "Seconds".into(),
    ];
    for change in changes {
        let mut other = kept.clone();
        change(&mut other["panels"][0]);
        assert_ne!(other, kept);
        fs::write(&path, other.to_string()).unwrap();
        assert!(folder.all_finished().unwrap().is_empty());
    }
    fs::write(&path, kept.to_string()).unwrap();
    assert_eq!(folder.all_finished().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_read_is_not_taken_for_unfinished() {
    let place = TempDir::new().unwrap();
    let folder = open(&place, Holdings::Refused).unwrap();
    keep(&folder);
    let path = place.path().join("car/fig8.json");
    fs::write(&path, "{").unwrap();
    let said = refusal(folder.all_finished());
    assert!(said.contains("car/fig8.json' is not what a reproduction writes there"), "{said}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let said = refusal(folder.all_finished());
    assert!(said.contains("fig8.json': it is not a regular file"), "{said}");
}

#[test]
fn a_folder_of_something_else_is_neither_begun_in_nor_gone_on_with() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("report.md"), "mine").unwrap();
    let said = refusal(open(&place, Holdings::Refused));
    assert!(said.contains("holds something already: name another directory"), "{said}");
    let said = refusal(open(&place, Holdings::Kept));
    assert!(said.contains("has no configuration.json, so it is no reproduction"), "{said}");
    assert_eq!(fs::read_to_string(place.path().join("report.md")).unwrap(), "mine");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is written");
    // One that is not there yet is begun in, whatever becomes of what it holds.
    for (name, holdings) in [("a", Holdings::Kept), ("b", Holdings::Removed)] {
        let path = place.path().join(name);
        Folder::open(&path, configuration(), holdings).unwrap();
        assert!(path.join(CONFIGURATION).exists());
    }
}

#[test]
fn what_is_written_over_goes_first_and_other_files_stay() {
    let place = TempDir::new().unwrap();
    let folder = open(&place, Holdings::Refused).unwrap();
    let kept = keep(&folder);
    let emulation = FinishedEmulation {
        program: configuration().program,
        emulated: Emulated::default(),
        seconds: 60.0,
    };
    folder.keep_emulation(kept.experiment, &emulation).unwrap();
    folder.write(REPORT, "of before").unwrap();
    folder.write("car/mine", "mine").unwrap();
    folder.write("car/fig8-emulated/scenario.toml", "of before").unwrap();
    folder.write("car/fig9-emulated/scenario.toml", "of before").unwrap();
    let names = ["fig8-emulated-notes.txt", "fig9-emulated/notes.txt", "fig8-emulated-mine/a.csv"];
    names.iter().for_each(|name| folder.write(&format!("car/{name}"), "mine").unwrap());
    let folder = open(&place, Holdings::Removed).unwrap();
    assert!(folder.all_finished().unwrap().is_empty());
    let left = fs::read_dir(place.path().join("car")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["fig8-emulated-mine", "fig8-emulated-notes.txt", "fig9-emulated", "mine"]);
    for name in names {
        assert_eq!(fs::read_to_string(place.path().join("car").join(name)).unwrap(), "mine");
    }
    assert!(!place.path().join("car/fig9-emulated/scenario.toml").exists());
    assert!(!place.path().join(REPORT).exists());
    assert!(place.path().join(CONFIGURATION).exists());
}

#[test]
fn every_value_is_a_line_with_what_the_paper_prints_of_it() {
    let text = csv(&[SIMULATED], &Table { panels: vec![panel()] });
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0].split(',').nth(10), Some("paper"));
    assert_eq!(lines[1], r#""a&b","here","CR","cr","time","s",1.75,1.5,2,2,1.64,0.5,"""#);
    let refused = "\"it would try <26 million> trees\"";
    assert!(lines[2].ends_with(&format!(",,,,0,13100,0.5,{refused}")), "{text}");
    assert!(lines[3].ends_with(r#","suture","time","s",4,4,4,1,,0.5,"""#), "{text}");
}

#[test]
fn values_that_were_removed_are_written_again_and_a_table_of_something_else_is_refused() {
    let place = TempDir::new().unwrap();
    let folder = open(&place, Holdings::Refused).unwrap();
    let kept = keep(&folder);
    let values = place.path().join("car/fig8.csv");
    let before = fs::read_to_string(&values).unwrap();
    fs::remove_file(&values).unwrap();
    folder.keep_values(&folder.all_finished().unwrap()[0]).unwrap();
    assert_eq!(fs::read_to_string(&values).unwrap(), before);
    let changes: [fn(&mut Table); 3] = [
        |table| table.panels.clear(),
        |table| drop(table.panels[0].groups.pop()),
        |table| table.panels[0].groups[1].cells[0].series = "RS".into(),
    ];
    for change in changes {
        let mut other = kept.clone();
        change(&mut other.outcome.table);
        folder.keep(&other).unwrap();
        let said = refusal(folder.all_finished());
        assert!(said.ends_with("its table has not the values of its panels"), "{said}");
    }
}

#[test]
fn what_a_link_leads_to_is_not_removed_with_it() {
    let (place, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let folder = open(&place, Holdings::Refused).unwrap();
    keep(&folder);
    fs::write(other.path().join("mine.toml"), "mine").unwrap();
    let link = place.path().join("car/fig8-emulated");
    std::os::unix::fs::symlink(other.path(), &link).unwrap();
    open(&place, Holdings::Removed).unwrap();
    assert!(!link.is_symlink());
    assert_eq!(fs::read_to_string(other.path().join("mine.toml")).unwrap(), "mine");
}
