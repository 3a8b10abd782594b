//! What people type wrongly, and what they are told: tables of an input, what stderr says and the
//! exit status. A table only grows.
//!
//! Each row is a line for the shell, run in a folder with files of every kind; rows that need a
//! cluster share one. Whatever a row says, nothing may panic, no terminal may be told what to do,
//! and no error is said twice.

mod daemons;
mod rows;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use daemons::{Cluster, count, finish, noise, suture};
use rows::{Row, SILENT, check, fault, run};
use rustix::process::{Pid, Signal, kill_process};

const COMMAND_LINES: &[Row] = &[
    ("suture", "Usage: suture [OPTIONS] <COMMAND>", 2),
    ("suture stauts", "some similar subcommands exist: 'stat', 'status'", 2),
    ("suture node", "Usage: suture node [OPTIONS] <COMMAND>", 2),
    ("suture repair", "Usage: suture repair [OPTIONS] <COMMAND>", 2),
    ("suture ls --format yaml", "[possible values: text, json]", 2),
    ("suture ls --format JSON", "[possible values: text, json]", 2),
    ("suture ls --foo", "unexpected argument '--foo'", 2),
    ("suture completions tcsh", "[possible values: bash, elvish, fish, powershell, zsh]", 2),
    ("suture completions", "<SHELL>", 2),
    ("suture man /nonexistent", "'/nonexistent' is not a folder: make it first", 2),
    ("suture config", "Usage: suture config [OPTIONS] <COMMAND>", 2),
    ("suture config check", "<ROLE>", 2),
    ("suture config check client", "[possible values: coordinator, agent]", 2),
    ("suture config check agent --config /nonexistent", "cannot read the configuration", 2),
    ("suture config show agent --config f", "in the configuration 'f'", 2),
    ("SUTURE_CONFIG=/nonexistent suture config show agent", "'/nonexistent': No such file", 2),
    ("SUTURE_CONFIG= suture config show agent", "a value is required", 2),
    ("suture -q -v codes", "'--quiet' cannot be used with '--verbose", 2),
    ("suture codes --quiet=1", "unexpected value '1' for '--quiet'", 2),
    ("suture demo --web=127.0.0.1:0", "--web 127.0.0.1:0: name the port", 2),
    ("suture demo --web=localhost", "invalid socket address syntax", 2),
    ("suture df n1", "unexpected argument 'n1'", 2),
    ("suture df --format csv", "[possible values: text, json]", 2),
    ("suture reproduce repairbost", "did you mean 'repairboost'?", 2),
    ("suture reproduce al", "did you mean 'all'?", 2),
    ("suture reproduce car/fig99", "car has no 'fig99'; did you mean 'car/fig9'?", 2),
    ("suture reproduce car/", "car has no ''", 2),
    ("suture reproduce ''", "there is no paper ''", 2),
    ("suture reproduce car/fig8 -o many", "'many' holds something already", 2),
    ("suture reproduce car/fig8 -o f", "cannot read the folder 'f'", 2),
    ("suture reproduce car/fig8 --traces many", "cannot read 'many/tpcds_upload.csv'", 2),
    ("suture reproduce car/fig8 --on moon", "[possible values: testbed]", 2),
    ("suture reproduce car/fig8 --force --resume", "cannot be used with", 2),
    ("suture ls a b", "unexpected argument 'b'", 2),
    ("suture rm", "were not provided", 2),
    ("suture node fail", "were not provided", 2),
    ("suture get f", "--output <FILE>", 2),
    ("suture get f -o - --format json", "standard output cannot hold both", 2),
    ("suture get f -o /dev/stdout --format json > both", "standard output cannot hold both", 2),
    ("suture put /nonexistent", "cannot read '/nonexistent': No such file", 2),
    ("suture put ''", "a value is required", 2),
    ("suture put", "were not provided", 2),
    ("suture put f --code 'rs(0,0)'", "rs(0,0) is impossible: it needs at least 1 data chunk", 2),
    ("suture put f --code 'rs(6,0)'", "at least 1 parity chunk", 2),
    ("suture put f --code 'rs(300,3)'", "at most 255 together", 2),
    ("suture put f --code 'rs(6,3'", "codes are written like rs(6,3)", 2),
    ("suture put f --code 6+3", "codes are written like rs(6,3)", 2),
    ("suture put f --code ''", "codes are written like rs(6,3)", 2),
    ("suture put f --code 'rs(6,3)' --code 'rs(2,1)'", "cannot be used multiple times", 2),
    ("suture put f --chunk-size 0", "'0' is too small: it must be at least 1B", 2),
    ("suture put f --chunk-size -1", "'-1' is not a size: write it like 64MiB", 2),
    ("suture put f --chunk-size 8m", "'8m' is not a size: write it like 64MiB", 2),
    ("suture put f --chunk-size 100EiB", "'100EiB' is too large: it must be below 16EiB", 2),
    ("suture put f --chunk-size 16EiB", "'16EiB' is too large: it must be below 16EiB", 2),
    ("suture put f --chunk-size 1", "multiples of 64B, --chunk-size 1B is not: take 64B", 2),
    ("suture put f --chunk-size 16TiB", "16TiB is too large: chunks have at most 1TiB", 2),
    (
        "suture put mib --chunk-size 64",
        "2731 stripes of 9 chunks: take --chunk-size 4KiB or more",
        2,
    ),
    ("suture put big --chunk-size 64", "take --chunk-size 4KiB or more", 2),
    ("suture put - --name x --chunk-size 64 < f", "take --chunk-size 4KiB or more", 2),
    ("suture put huge --chunk-size 4KiB", "take --chunk-size 4MiB or more", 2),
    ("suture put f --name ''", "'' is not a name for an object", 2),
    ("suture put many --name ''", "'' is not a name for an object", 2),
    ("suture put f --name \"$(printf 'a\\nb')\"", r"'a\nb' is not a name", 2),
    ("suture put f --name \"$(printf '\\033[2J')\"", r"'\u{1b}[2J' is not a name", 2),
    ("suture put f --name \"$(printf '\\377')\"", "invalid UTF-8", 2),
    ("suture put f --name $(printf %05000d 7)", "0...' (5000 bytes) is not a name", 2),
    ("suture put dangling", "cannot read 'dangling': No such file", 2),
    ("suture put f ./f", "more than one of the sources would be 'f'", 2),
    ("suture put - --name x --skip-existing < f", "--skip-existing goes with files", 2),
    ("suture get -r many -o -", "standard output takes one object", 2),
    ("suture get -r many", "--output <FILE>", 2),
    ("suture put fifo", "'fifo' is neither a file nor a folder", 2),
    ("suture put emptydir", "there are no files in 'emptydir'", 2),
    ("suture put newline", r"'newline/a\nb' is not a name", 2),
    ("suture put latin", "is not UTF-8: rename it", 2),
    ("suture put -", "standard input has no name: give it a --name", 2),
    ("suture put - --name x <&-", "standard input is closed", 2),
    ("suture put f mib --name x", "--name and standard input (-) go with one source", 2),
    ("suture put f -", "--name and standard input (-) go with one source", 2),
    ("suture status --coordinator nonsense", "no coordinator answers at nonsense:7400", 1),
    ("suture status --coordinator http://127.0.0.1:1", "leave out what stands before the host", 2),
    ("suture status --coordinator 127.0.0.1:99999", "ports are numbers from 1 to 65535", 2),
    ("suture status --coordinator 127.0.0.1:", "ports are numbers from 1 to 65535", 2),
    ("suture status --coordinator 127.0.0.9", "no coordinator answers at 127.0.0.9:7400", 1),
    ("suture status --coordinator ''", "is not an address like 127.0.0.1:7400", 2),
    ("SUTURE_COORDINATOR= suture status", "is not an address like 127.0.0.1:7400", 2),
    ("suture status --coordinator 127.0.0.1:1", "start a coordinator (suture coordinator)", 1),
    ("suture stat nope --coordinator 127.0.0.1:1 2>/dev/full", SILENT, 1),
    ("suture agent --config nope", "cannot read the configuration 'nope': No such file", 2),
    ("suture agent --config .", "cannot read the configuration '.'", 2),
    ("suture agent --config -", "cannot read the configuration '-'", 2),
    ("suture agent --config noise", "valid UTF-8", 2),
    ("suture coordinator --config utf16", "valid UTF-8", 2),
    ("suture testbed", "Usage: suture testbed [OPTIONS] <COMMAND>", 2),
    ("suture testbed up", "say what to make: a scenario, --nodes N", 2),
    ("suture testbed up --nodes 3 --bandwidth 0Mbit", "'0Mbit' is too small", 2),
    ("suture testbed up --nodes 3 --links 1Mbit,fast", "'fast' is not a rate", 2),
    ("suture testbed up --nodes 3 --racks 4", "--racks 4 does not fit 3 nodes", 2),
    ("suture testbed up --nodes 0", "at least one node", 2),
    ("suture testbed run nope.toml -o r", "cannot read the scenario 'nope.toml': No such file", 2),
    ("suture testbed run scenario.toml", "--output <DIR>", 2),
    ("suture testbed run misspelt.toml -o r", "did you mean 'repetitions'?", 2),
    ("suture testbed run zero-rate.toml -o r", "'0Mbit' is too small: it must be above zero", 2),
    ("suture testbed run no-policy.toml -o r", "did you mean", 2),
    ("suture testbed run all-fail.toml -o r", "0 of 4 nodes are left", 2),
    ("suture testbed run bad-trace.toml -o r", "line 1: 2 columns, but the cluster has 4 nodes", 2),
    ("PATH=${PATH%%:*} suture testbed run scenario.toml -o r", "no program 'ip'", 2),
    (
        "[ $(id -u) != 0 ] || as='setpriv --reuid 65534 --clear-groups'; $as suture testbed up --nodes 3",
        "network namespaces, and only root may: run it with sudo",
        2,
    ),
    ("suture testbed run scenario.toml -o many", "'many' holds something already", 2),
    ("suture testbed down nope", "there is no testbed 'nope'", 2),
    ("suture load --workload ycsb-z", "did you mean 'ycsb-", 2),
    ("suture load --workload switching", "is for suture simulate alone", 2),
    ("suture load --rate 0", "--rate 0 cannot be", 2),
    ("suture load --rate nan", "--rate NaN cannot be", 2),
    ("suture load --clients 0", "--clients 0 cannot be: 1 to 512", 2),
    ("suture load --duration 5", "'5' is not a duration", 2),
    ("suture load --coordinator 127.0.0.1:1", "start a coordinator (suture coordinator)", 1),
    (
        "suture encode f --code 'rs(2,1)' --chunk-size 4KiB -o enc",
        "already holds an encoded file",
        2,
    ),
    ("suture encode nope --code 'rs(2,1)' --chunk-size 4KiB -o new", "there is no file nope", 2),
    ("suture encode . --code 'rs(2,1)' --chunk-size 4KiB -o new", "is a directory; archive it", 2),
    (
        "suture encode /proc/version --code 'rs(2,1)' --chunk-size 4KiB -o new; r=$?; test -e new || exit $r",
        "/proc/version is not as long as the system says (0 bytes): copy it (cat /proc/version > FILE)",
        2,
    ),
    ("suture encode - --code 'rs(2,1)' --chunk-size 4KiB -o new", "write it to a file first", 2),
    (
        "suture encode f --code 'rs(2,1)' --unit 3MiB --chunk-size 1MiB -o new",
        "nearest valid: 3MiB",
        2,
    ),
    ("suture encode f --code 'clay(4,2,5)' --chunk-size 100 -o new", "nearest valid: 512B", 2),
    ("suture encode f --code 'rs(2,1)' --chunk-size -1 -o new", "'-1' is not a size", 2),
    ("suture encode empty --code 'rs(2,1)' --chunk-size 4KiB -o of-nothing", SILENT, 0),
    ("suture decode of-nothing -o nothing && ! test -s nothing", SILENT, 0),
    ("suture decode nope -o x", "nope does not exist", 2),
    ("suture decode emptydir -o x", "holds no manifest.json", 2),
    ("suture decode enc -o emptydir", "is a directory; name a file in it", 2),
    ("suture decode enc -o /dev/null", "is not a regular file", 2),
    ("suture decode enc -o - | cmp - f && ! test -e ./-", "standard output (5 B) is complete", 0),
    ("suture decode enc -o /dev/stdout | cmp - f", "standard output (5 B) is complete", 0),
    (
        "(printf 1 && suture decode enc -o /proc/self/fd/1) > after && (printf 1; cat f) | cmp - after",
        "standard output (5 B) is complete",
        0,
    ),
    ("suture decode enc -o - >/dev/full", "cannot write standard output: No space left", 1),
    (
        "suture decode broken -o x; r=$?; test -e x || exit $r",
        "cannot be decoded, so x was not written",
        3,
    ),
    ("suture decode broken -o -", "standard output was not written", 3),
    ("suture verify broken", SILENT, 3),
    ("suture rebuild broken", "stripe 0", 3),
    ("suture decode cut -o x", "manifest", 2),
    ("suture decode scribbled -o x", "manifest", 2),
    ("suture rebuild enc --lost 99", "there is no such chunk; rs(2,1) has chunks 0 to 2", 2),
    ("suture rebuild enc --lost x", "write numbers like --lost 0,7", 2),
    ("suture rebuild enc --method magic", "[possible values: conventional, optimal, trace]", 2),
    ("suture plan --nodes 99999999999 $PLAN --failed n0", "at most 100000", 2),
    (
        "suture plan --nodes 12 --code 'rs(6,3)' --stripes 99999999999 --failed n0",
        "at most 10000000",
        2,
    ),
    ("suture plan --nodes 3 $PLAN --failed n0", "3 nodes are too few for rs(6,3)", 2),
    ("suture plan --nodes 12 $PLAN --failed n99", "no such node; did you mean 'n9'?", 2),
    ("suture plan --nodes 12 $PLAN --failed n0 --policy flwo", "did you mean 'flow'?", 2),
    ("suture plan --nodes 12 $PLAN --failed n0 --bandwidth uniform:1Gbit..1Mbit", "swap them", 2),
    ("suture plan --cluster odd.toml --placement f $PLAN --failed n0", "upink", 2),
    ("suture simulate --nodes 12 $PLAN --failed n0 --straggler x", "--straggler", 2),
    ("suture simulate --nodes 12 $PLAN --failed n0 --foreground x", "--foreground", 2),
    ("suture simulate --nodes 12 $PLAN --failed n0 --throttle fast", "write it like keep=30%", 2),
    ("suture simulate --nodes 12 $PLAN --failed n0 --throttle p99=1s", "use keep", 2),
    ("suture repair throttle --cap 0", "--cap", 2),
    ("suture repair throttle --node n3", "n3=50Mbit", 2),
    ("suture repair throttle --keep 100%", "1% to 99%", 2),
    ("suture repair throttle --p99 1h", "1ms to 1min", 2),
    ("suture repair throttle --window '* * * * *;Mars/Olympus'", "Mars/Olympus", 2),
    ("suture repair throttle --off --cap 1Gbit", "cannot be used with", 2),
    ("suture simulate --nodes 12 $PLAN --failed n0 --uplink-trace no --downlink-trace no", "no", 2),
    ("suture durability --nodes 12 $PLAN --years 1e15", "above zero, and at most 10000", 2),
    ("suture $SIM --straggler n1:0", "the repair stands still", 2),
    ("suture $SIM --straggler n1:1e-300", "takes more than 30 days", 2),
    ("suture $SIM --straggler n1:0:0..5", SILENT, 0),
    ("suture $SIM --bandwidth 1bit", "takes more than 30 days", 2),
    ("suture $SIM --bandwidth 1bit --compare", "no policy serves this input", 2),
    ("suture $SIM --uplink-trace /dev/zero", "/dev/zero: it has more than 256MiB", 2),
    ("suture codes 'lrc(200,20,20)'", SILENT, 0),
    ("suture swarm --seeds 18446744073709551614..18446744073709551615", SILENT, 0),
    ("suture verify piped", "piped/manifest.json is refused: it is not a regular file", 2),
    ("suture decode piped -o nowhere", "it is not a regular file", 2),
    ("suture rebuild piped", "it is not a regular file", 2),
    ("suture config check agent --config /dev/zero", "'/dev/zero': it has more than 64MiB", 2),
    (
        "suture plan --cluster /dev/zero --placement f --code 'rs(6,3)' --failed 1",
        "it has more than 64MiB",
        2,
    ),
    (
        "suture plan --cluster <(for i in {1..9}; do printf '[[node]]\\nuplink=\"1Gbit\"\\ndownlink=\"1Gbit\"\\n'; echo \"name='n$i'\"; done) --placement /dev/zero --code 'rs(6,3)' --failed n1",
        "a line of it has more than 64KiB",
        2,
    ),
    ("suture demo --agents 99999999999", "so at most 1000", 2),
    ("ulimit -v 2000000; suture replay /dev/zero", "a line of it has more than 1KiB", 2),
    (
        "ulimit -v 2000000; suture replay <(echo 'suture-transcript-2 agent'; cat /dev/zero)",
        "a line of it has more than 256MiB",
        2,
    ),
    (
        "suture encode f --code 'rs(2,1)' --chunk-size 64 -o dangling",
        "a link to a file that is not",
        2,
    ),
    ("suture decode enc -o nowhere/", "nowhere/ is not there: make the folder first", 2),
    (
        "suture plan --nodes 12 $PLAN --failed $'\\e[31m'",
        r"--failed \u{1b}[31m: the cluster has",
        2,
    ),
    ("suture codes $'\\e[31m'", r"invalid value '\u{1b}[31m'", 2),
    ("suture codes --$'\\e[31m'", r"\u{1b}[31m", 2),
    ("suture $'\\e]0;x\\a'", r"\u{1b}]0;x\u{7}", 2),
    ("suture verify $'no\\e[2J'", r"no\u{1b}[2J does not exist", 2),
    ("suture verify escape", r"unknown field `\u{1b}[2J`", 2),
    ("suture verify stray | grep -qF 'note: \\u{1b}[2J does not belong'", SILENT, 0),
    ("suture replay <(printf '\\e[2J\\n')", r"'\u{1b}' stands where", 2),
    ("suture $SIM --uplink-trace <(printf '\\e[2J,1,1,1,1,1,1,1\\n')", r"\u{1b}[2J", 2),
    (
        "suture plan --cluster <(printf '[[node]]\\nuplink = \"\\\\u001b[2J\"\\n') --placement f --code 'rs(6,3)' --failed n1",
        r"\u{1b}[2J",
        2,
    ),
    ("suture durability --nodes 12 $PLAN --years x", "--years", 2),
    ("suture durability --nodes 12 $PLAN --runs x", "--runs", 2),
    ("suture swarm --seeds 5..2", "holds no seed; the first number is the smaller", 2),
    ("suture demo --agents 3", "--agents must be at least 10", 2),
    ("suture demo --link 0", "write it like 200Mbit", 2),
    ("TMPDIR=/nope suture demo", "cannot make a temporary folder", 1),
    ("suture calibrate --only x", "no scenario has this in its name", 2),
];

/// Role, the rest of its configuration, what stderr contains, exit status.
const CONFIGURATIONS: &[(&str, &str, &str, i32)] = &[
    ("agent", "nmae = 'x'", "unknown field `nmae`, expected one of", 2),
    ("agent", "[timer]\nstall = '1s'", "unknown field `timer`", 2),
    ("agent", "name = 'a'\nname = 'b'", "duplicate key", 2),
    ("agent", "memory = 5", "invalid type: integer `5`, expected a string", 2),
    ("agent", "memory = '0'", "'0' is too small: it must be at least 1B", 2),
    ("agent", "memory = '-5'", "is not a size: write it like 64MiB", 2),
    ("agent", "memory = '16EiB'", "is too large", 2),
    ("agent", "memory = '1KiB'", "memory: an agent needs at least 1.00 MiB", 2),
    ("agent", "memory = '1000TiB'", "memory: this machine has", 2),
    ("agent", "uplink = '0'", "is not a rate: write it like 200Mbit", 2),
    ("agent", "uplink = 'fast'", "is not a rate: write it like 200Mbit", 2),
    ("agent", "uplink = '-1Gbit'", "is not a rate: write it like 200Mbit", 2),
    ("agent", "uplink = '1000000Tbit'", "uplink: 125000 TB/s is not a link's rate", 2),
    ("agent", "uplink = '1Mbit'\nrepair_cap = '2Mbit'", "repair_cap must not be above uplink", 2),
    ("agent", "[timers]\nheartbeat = '0s'", "'0s' is too small: it must be above zero", 2),
    ("agent", "[timers]\nheartbeat = '1'", "write it like 500ms, 30s, 10min, 2h", 2),
    ("agent", "[timers]\nheartbeat = 1", "invalid type: integer `1`", 2),
    ("agent", "[timers]\nheartbeat = '-1s'", "write it like 500ms", 2),
    ("agent", "[timers]\nheartbeat = '100000 years'", "write it like 500ms", 2),
    ("agent", "[timers]\nheartbeat = '99999999h'", "timers: heartbeat must be 10ms to 60s", 2),
    ("agent", "[timers]\nstall = '1ms'", "timers: stall must be 1s to", 2),
    ("agent", "[timers]\ninventory = '1ms'", "timers: inventory must be 100ms to", 2),
    ("agent", "[hdfs]\nsoket = '/run/x'", "unknown field `soket`", 2),
    ("agent", "[hdfs]\nsocket = '/run/x'\nuser = 'no such'", "there is no user 'no such'", 2),
    ("agent", "name = ''", "'' is not a name for a node: 1 to 128 bytes without spaces", 2),
    ("agent", "name = 'a b'", "'a b' is not a name for a node", 2),
    ("agent", "name = \"a\\nb\"", r"'a\nb' is not a name for a node", 2),
    ("agent", "rack = ''", "'' is not a name for a rack", 2),
    ("agent", "advertise = '127.0.0.1:0'", "advertise: nobody can connect to port 0", 2),
    ("agent", "advertise = 'host:1'", "is not an IP address (not a name) and a port", 2),
    ("agent", "coordinator = ''", "coordinator: '' is not an address like 127.0.0.1:7400", 2),
    ("agent", "coordinator = 'http://h'", "leave out what stands before the host", 2),
    ("agent", "data_dir = ''", "data_dir: '' is taken as it stands: write the whole path", 2),
    ("agent", "data_dir = '~/x'", "data_dir: '~/x' is taken as it stands", 2),
    ("agent", "data_dir = '$HOME/x'", "data_dir: '$HOME/x' is taken as it stands", 2),
    ("coordinator", "data_dir = '~/x'", "data_dir: '~/x' is taken as it stands", 2),
    ("agent", "credentials = ''", "credentials: '' is taken as it stands", 2),
    ("agent", "credentials = '~/x'", "credentials: '~/x' is taken as it stands", 2),
    ("coordinator", "credentials = '$X'", "credentials: '$X' is taken as it stands", 2),
    ("coordinator", "credentials = 'no'", "cannot read no/tls.crt: No such file", 2),
    ("coordinator", "audit = ''", "audit: '' is taken as it stands", 2),
    ("coordinator", "audit = '~/x'", "audit: '~/x' is taken as it stands", 2),
    ("coordinator", "audit = 'no/x'", "cannot write the audit log no/x: No such file", 1),
    ("agent", "data_dir = 'f'", "cannot use 'f': it is not a folder", 1),
    ("coordinator", "data_dir = 'f'", "cannot open the metadata in 'f': it is not a folder", 1),
    ("agent", "data_dir = '/proc/x'", "cannot use '/proc/x': No such file", 1),
    ("coordinator", "data_dir = '/proc/x'", "in '/proc/x': No such file", 1),
    ("agent", "data_dir = 'identified'", "is not readable", 1),
    ("agent", "data_dir = 'version9'", "version 9, this build reads 1", 1),
    ("coordinator", "data_dir = 'garbage'", "not a database", 1),
    ("coordinator", "data_dir = 'hollow'", "is empty", 2),
    ("coordinator", "[repair]\npolicy = 'nope'", "did you mean", 2),
    ("coordinator", "[repair]\npolicy = 'star/x/y'", "did you mean", 2),
    ("coordinator", "[scrub]\nperiod = '1ms'", "scrub: period must be 1s or more, not 1ms", 2),
    ("coordinator", "[backup]\nevery = '1ms'", "backup: every must be 1s or more, not 1ms", 2),
    ("coordinator", "data_dir = \"a\\u0000b\"", r"data_dir: 'a\0b' cannot be a path", 2),
    ("agent", "data_dir = \"a\\u0000b\"", r"data_dir: 'a\0b' cannot be a path", 2),
    ("coordinator", "[timers]\nsuspect = \"\\u001b[31m\"", r"'\u{1b}[31m' is not a duration", 2),
    ("agent", "\u{1b}[31m = 1", r"\u{1b}[31m = 1", 2),
    ("coordinator", "[scrub]\nperiod = 'never'", "is not a duration", 2),
    ("coordinator", "[scrub]\nrate = '0'", "is not a rate", 2),
    ("coordinator", "[timers]\nsuspect = '2min'", "suspect must be shorter than dead", 2),
    ("coordinator", "[timers]\nretry_first = '1h'", "retry_first must not be longer", 2),
    ("coordinator", "[throttle]\nkeep = 'some'", "throttle: keep: 'some' is not a rate", 2),
    ("coordinator", "[throttle]\nwindow = '* * * *'", "five fields", 2),
    ("agent", "[rates]\nprobe = 'yes'", "neither", 2),
    ("agent", "repair_dscp = 'cs9'", "is no mark of packets", 2),
    ("coordinator", "[hdfs]\nmode = 'on'", "expected one of `off`, `observe`, `repair`", 2),
    ("coordinator", "[hdfs]\nlease = '2min'", "hdfs: lease must be at most 60s", 2),
    ("coordinator", "[hdfs]\npoll = '10s'", "hdfs: lease must be at least 3 times poll", 2),
    ("coordinator", "[hdfs]\nlisten = 'host:1'", "is not an IP address (not a name)", 2),
    ("coordinator", "[timers]\nstall = '1ms'", "timers: stall must be 1s to", 2),
    (
        "coordinator",
        "listen = 'foo'",
        "'foo' is not an IP address (not a name) and a port, like",
        2,
    ),
    ("coordinator", "listen = '127.0.0.1'", "is not an IP address", 2),
    ("coordinator", "metrics = '9740'", "'9740' is not an IP address (not a name) and a port", 2),
    ("coordinator", "metrics = ':9740'", "is not an IP address", 2),
    ("coordinator", "web = '0.0.0.0:0'", "listen on a loopback address, or say `insecure`", 2),
    ("agent", "web = '127.0.0.1:0'", "unknown field `web`", 2),
    ("agent", "metrics = true", "expected a string", 2),
    ("agent", "metrics = 'localhost:9741'", "(not a name)", 2),
    ("coordinator", "metrics = '0.0.0.0:0'", "listen on a loopback address, or say `insecure`", 2),
    ("agent", "metrics = '0.0.0.0:0'", "listen on a loopback address, or say `insecure`", 2),
    ("coordinator", "listen = '127.0.0.1:99999'", "is not an IP address", 2),
    ("coordinator", "listen = 'localhost:0'", "(not a name)", 2),
    ("coordinator", "listen = '0.0.0.0:0'", "listen on a loopback address, or say `insecure`", 2),
    ("agent", "listen = '0.0.0.0:0'", "set advertise to an address that they reach", 2),
    (
        "coordinator",
        "listen = '8.8.8.8:1'\ninsecure = true",
        "cannot listen on 8.8.8.8:1: Cannot",
        1,
    ),
    ("agent", "{\"a\": 1}", "expected", 2),
    ("agent", "a: 1", "expected `=`", 2),
];

/// With three agents, whose objects are of rs(2,1).
const OF_A_CLUSTER: &[Row] = &[
    ("suture put f --code 'rs(10,4)'", "rs(10,4) needs 14 nodes, 3 are up", 1),
    (
        "suture put f $CODE --name '../../etc/passwd' && mkdir -p d && suture get '../../etc/passwd' -o d && cmp d/passwd f",
        SILENT,
        0,
    ),
    ("for n in /abs a//b x/ ' '; do suture put f $CODE --name \"$n\" || exit; done", SILENT, 0),
    ("suture put f $CODE --name 'ünï 😀' && suture ls ünï | grep -q 😀", SILENT, 0),
    ("suture put f $CODE && suture put f $CODE", "there is an object 'f' already", 2),
    ("suture put mib f2 $CODE && suture stat mib && suture stat f2", SILENT, 0),
    ("suture put link $CODE && suture get link -o back && cmp back f", SILENT, 0),
    ("suture put mixed $CODE", "skipped 'mixed/fifo': not a regular file", 1),
    ("suture get mixed/link -o back && cmp back f", SILENT, 0),
    ("suture put - --name nothing $CODE < /dev/null && suture stat nothing", SILENT, 0),
    // Said to be empty, and to have a page.
    (
        "suture put /proc/version $CODE && suture get version -o back && cmp back /proc/version",
        SILENT,
        0,
    ),
    (
        "f=/sys/devices/system/cpu/possible; suture put $f $CODE && suture get possible -o back && cmp back $f",
        SILENT,
        0,
    ),
    ("suture put secret $CODE", "cannot read 'secret': Permission denied", 1),
    ("timeout --preserve-status -s INT 1 suture put - --name slow $CODE < waiting", SILENT, 130),
    ("suture put f --name slow $CODE && suture rm slow", SILENT, 0),
    ("suture get nope -o x", "there is no object 'nope' (suture ls lists them)", 2),
    ("suture get '' -o x", "there is no object ''", 2),
    ("suture get $(printf %05000d 7) -o x", "0...' (5000 bytes) (suture ls", 2),
    ("suture get \"$(printf 'a\\033[2Jb')\" -o x", r"'a\u{1b}[2Jb'", 2),
    ("suture get f -o back && suture get f -o back && cmp back f", SILENT, 0),
    ("suture get f -o /no/dir/x", "cannot write /no/dir/x: there is no directory /no/dir", 2),
    ("suture get f -o through && test -L through && cmp target f", SILENT, 0),
    (
        "(cat fifo > read & suture get f -o fifo && wait) && test -p fifo && cmp read f",
        "f: 5 B read and checked",
        0,
    ),
    ("suture get f -o /dev/null && test -c /dev/null", "f: 5 B read and checked", 0),
    ("suture get f -o /dev/stdout | cmp - f", "f: 5 B read and checked", 0),
    ("suture get f -o /dev/fd/1 | cmp - f", "f: 5 B read and checked", 0),
    (
        "(printf 1 && suture get f -o /proc/self/fd/1) > after && (printf 1; cat f) | cmp - after",
        "f: 5 B read and checked",
        0,
    ),
    (
        "suture get mib -o - | true; suture get mib -o - | head -c 10 >/dev/null",
        "cannot write the output: Broken pipe",
        0,
    ),
    ("suture get f -o - >/dev/full", "cannot get 'f': cannot write the output: No space left", 1),
    (
        "unshare -rm sh -c 'mount -t tmpfs -o size=64k none emptydir && suture get mib -o emptydir/x; r=$?; ls -A emptydir; exit $r'",
        "No space left",
        1,
    ),
    (
        "truncate -s 512M shrinks; (sleep 0.3; truncate -s 1M shrinks) & suture put shrinks $CODE",
        "the input",
        1,
    ),
    (
        "mkfifo q; timeout --preserve-status -s INT 1 suture get mib -o q; r=$?; rm q; ls -A | grep suture- ; exit $r",
        SILENT,
        130,
    ),
    ("suture ls prefix-none && suture ls 'x*'", SILENT, 0),
    ("set -o pipefail 2>/dev/null; suture ls | head -1 && suture status | head -1", SILENT, 0),
    ("suture ls >/dev/full", "cannot print the result: No space left", 1),
    ("suture status >/dev/full", "cannot print the result: No space left", 1),
    ("suture ls >&-", SILENT, 0),
    ("suture stat nope", "there is no object 'nope'", 2),
    ("suture rm nope", "there is no object 'nope'", 2),
    ("suture rm ''", "there is no object ''", 2),
    ("suture stat nope 2>/dev/full", SILENT, 2),
    ("suture rm f2 nope mib zip", "no object 'nope'", 2),
    ("suture stat f2", "there is no object 'f2'", 2),
    ("suture stat mib", "there is no object 'mib'", 2),
    (
        "suture put f2 $CODE && suture rm nope f2 --format json | grep -q '\"name\": \"f2\"'",
        "no object 'nope'",
        0,
    ),
    (
        "suture put many $CODE && suture put many $CODE",
        "'many/a' already: 2 of 2 names are taken",
        2,
    ),
    ("suture put mib many $CODE", "'many/a' already: 2 of 3 names are taken, so nothing was", 2),
    ("suture stat mib", "there is no object 'mib'", 2),
    ("suture put many $CODE --skip-existing | grep -qx '2 were there already'", SILENT, 0),
    (
        "suture rm many/a && echo > many/c && suture put many $CODE --skip-existing | grep -qx '1 was there already'",
        SILENT,
        0,
    ),
    ("suture put f $CODE --skip-existing | grep -qx '1 was there already'", SILENT, 0),
    (
        "cp -r many grown && echo 7 >> grown/c && echo d > grown/d && suture put grown --name many $CODE --skip-existing",
        "'many/c' already, of 1 bytes and not 3: remove it first",
        2,
    ),
    ("suture get many/d -o back && cmp back grown/d && suture rm many/d", SILENT, 0),
    ("suture put part $CODE", "cannot read 'part/b-secret': Permission denied", 1),
    ("suture get part/c -o back && cmp back f", SILENT, 0),
    (
        "cp f \"$(printf 'newline/c')\" && suture put newline $CODE",
        r"'newline/a\nb' is not a name",
        2,
    ),
    ("suture get newline/c -o back && cmp back f", SILENT, 0),
    ("cp f latin/a && suture put latin $CODE", "is not UTF-8: rename it", 2),
    ("suture stat latin/a", SILENT, 0),
    (
        "for i in 1 2 3 4 5 6; do mkdir -p six; echo > six/$i; done; suture put six --code 'rs(10,4)' 2>&1 | grep -c . | grep -qx 4",
        SILENT,
        0,
    ),
    ("suture put six --code 'rs(10,4)'", "3 objects, from 'six/4' on, not tried", 1),
    (
        "suture get many -o back",
        "no object 'many', but 3 objects begin with 'many/': give --recursive",
        2,
    ),
    ("suture get 'many/*' -o back", "give 'many' and --recursive", 2),
    ("suture get -r many -o tree/of/it && diff -r many tree/of/it", SILENT, 0),
    (
        "echo old > tree/of/it/a; suture get -r many/ -o tree/of/it && diff -r many tree/of/it",
        SILENT,
        0,
    ),
    ("suture get -r f -o tree && cmp f tree/f", SILENT, 0),
    ("suture get -r nope -o tree", "no object 'nope', and none begins with 'nope/'", 2),
    ("suture get -r man -o tree", "none begins with 'man/'", 2),
    ("suture get -r '' -o tree", "there is no object ''", 2),
    ("suture get -r many -o f", "'f' is not a folder", 2),
    ("suture get -r .. -o unmade", "'../../etc/passwd' would not be a file in the folder", 2),
    ("suture get -r a -o unmade", "'a//b' would not be a file in the folder", 2),
    (
        "suture put f --name col/x $CODE && suture put f --name col/x/y $CODE && suture get -r col -o unmade",
        "'col/x' would be a file where others need a folder 'x'",
        2,
    ),
    ("test -e unmade", SILENT, 1),
    ("mkdir -p taken/a && suture get -r many -o taken", "is a directory; name a file in it", 2),
    ("cmp taken/sub/b many/sub/b", SILENT, 0),
    ("suture rm many", "no object 'many', but 3 objects begin with 'many/': give --recursive", 2),
    (
        "suture rm 'many/*'",
        "names are taken as they are; for all that begin with 'many/', give 'many' and --recursive",
        2,
    ),
    ("suture rm 'man*'", "names are taken as they are (suture ls lists them)", 2),
    ("suture rm -r many part | grep -c ': removed, ' | grep -qx 5", SILENT, 0),
    ("suture rm -r many", "none begins with 'many/'", 2),
    ("suture rm -r nope col | grep -c ': removed, ' | grep -qx 2", "none begins with 'nope/'", 0),
    ("suture rm -r ''", "there is no object ''", 2),
    ("suture node fail nope", "there is no node 'nope' (see suture node list)", 2),
    ("suture node fail ''", "there is no node ''", 2),
    ("suture node drain nope", "there is no node 'nope'", 2),
    ("suture node drain", "required arguments were not provided", 2),
    ("suture node drain n1 nope", "there is no node 'nope'", 2),
    ("suture node pause n1", "--for <TIME>", 2),
    ("suture node pause n1 --for 0s", "it must be above zero", 2),
    ("suture node pause n1 --for 1y", "a pause lasts up to 30 days", 2),
    ("suture repair start nope", "there is no object 'nope'", 2),
    ("suture node remove nope", "there is no node 'nope'", 2),
    ("suture node replace nope", "there is no node 'nope'", 2),
    ("suture node replace n1", "the agent of 'n1' is running: stop it first", 2),
    ("suture node return n1 | grep -q 'n1 was not declared failed, drained or paused'", SILENT, 0),
    ("suture node fail n1 --format json | grep -q '\"command\": \"fail\"'", SILENT, 0),
    ("suture node return n1 --format json | grep -q '\"command\": \"return\"'", SILENT, 0),
    ("suture repair pause | grep -q 'paused'", SILENT, 0),
    ("suture repair status | grep -q 'paused'", SILENT, 0),
    ("suture repair start", "repairs were paused; now they go on", 0),
    ("suture repair throttle --node nobody=1Mbit", "there is no node 'nobody'", 2),
    ("suture repair throttle --cap 200Mbit --keep 30% | grep -q 'at each node'", SILENT, 0),
    ("suture repair throttle --format json | grep -q 'keep_percent.*30'", SILENT, 0),
    ("suture repair throttle --off | grep -q 'all that links carry'", SILENT, 0),
    ("suture repair throttle --reset | grep -q 'coordinator.toml'", SILENT, 0),
    ("suture repair start", SILENT, 0),
    ("suture repair status --watch --format json | grep -c '^{' | grep -qx 1", SILENT, 0),
    ("suture status --coordinator $AGENT", "what listens there speaks otherwise", 1),
    ("suture status --coordinator $SILENT_PORT", "what listens there does not answer", 1),
    ("suture coordinator --config same-dir.toml", "is in use by another coordinator", 1),
    ("suture coordinator --config same-port.toml", "is in use by another process", 1),
    ("suture agent --config other-name.toml", "holds the chunks of node 'n2', not of 'n33'", 2),
    ("suture agent --config other-cluster.toml", "this is the coordinator of cluster", 2),
    ("suture agent --config copied-name.toml", "run `suture node replace n2`", 2),
];

/// Scenarios of a testbed: one that can be run, and others that differ from it in one thing.
fn write_scenarios(folder: &Path) {
    let scenario = "code = 'rs(2,1)'\nchunk_size = '64KiB'\nstripes = 4\npolicies = ['flow']\n\
                    [cluster]\nnodes = 4\n[failure]\nnodes = ['n1']\n";
    fs::write(folder.join("trace.csv"), "1,2\n").unwrap();
    for (name, from, to) in [
        ("scenario", "", ""),
        ("misspelt", "stripes = 4", "stripes = 4\nrepetition = 5"),
        ("zero-rate", "nodes = 4", "nodes = 4\nbandwidth = '0Mbit'"),
        ("no-policy", "'flow'", "'flwo'"),
        ("all-fail", "'n1'", "'n0', 'n1', 'n2', 'n3'"),
        ("bad-trace", "[failure]", "[replay]\nuplinks = 'trace.csv'\n[failure]"),
    ] {
        let path = folder.join(name).with_extension("toml");
        fs::write(path, scenario.replacen(from, to, 1)).unwrap();
    }
}

/// Files of every kind.
fn prepare(folder: &Path) {
    write_scenarios(folder);
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    for name in ["emptydir", "many/sub", "mixed", "newline", "latin", "part", "garbage", "hollow"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for name in ["identified", "version9"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    write("f", b"hello");
    write("f2", b"world");
    write("empty", b"");
    write("mib", &noise(1 << 20));
    write("noise", &noise(300));
    write(
        "utf16",
        &"\u{feff}listen = ''".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>(),
    );
    write("many/a", b"a");
    write("many/sub/b", b"b");
    write("newline/a\nb", b"");
    write("odd.toml", b"[[node]]\nname = 'a'\nupink = '1Gbit'\n");
    fs::write(folder.join("latin").join(OsStr::from_bytes(b"\xff")), b"").unwrap();
    write("garbage/metadata.db", &noise(9000));
    write("hollow/metadata.db", b"");
    write("identified/identity", b"nonsense\n");
    write("version9/identity", b"suture-store 9\n");
    write("target", b"old");
    for (name, bytes) in [("big", 2 << 30), ("huge", 4 << 40)] {
        fs::File::create(folder.join(name)).unwrap().set_len(bytes).unwrap();
    }
    for (link, to) in [("dangling", "nowhere"), ("link", "f"), ("mixed/link", "../f")] {
        symlink(to, folder.join(link)).unwrap();
    }
    symlink("target", folder.join("through")).unwrap();
    let script = "mkfifo fifo mixed/fifo
        suture encode f --code 'rs(2,1)' --chunk-size 4KiB -o enc
        for d in broken cut scribbled; do cp -r enc $d; done
        cp -r enc escape; sed -i '1s/{/{\"\\\\u001b[2J\": 1,/' escape/manifest.json
        cp -r enc stray; touch stray/$'\\e[2J'
        mkdir piped && mkfifo piped/manifest.json
        rm broken/chunk.0[01] && truncate -s 40 cut/manifest.json && cp noise scribbled/manifest.json
        for c in secret part/a part/b-secret part/c; do cp f $c; done
        chmod 000 secret part/b-secret";
    let prepared = run(&format!("set -e; {script}"), folder, &[]);
    assert_eq!(prepared.status, 0, "{}", prepared.stderr);
}

#[test]
fn a_command_line_that_cannot_be_right_says_what_would_be() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let plan = "--code rs(6,3) --stripes 1";
    let sim = "simulate --code rs(3,2) --nodes 8 --stripes 20 --failed n0";
    check(COMMAND_LINES, folder.path(), &[("PLAN", plan), ("SIM", sim), ("TERM", "dumb")]);
}

#[test]
fn a_configuration_that_cannot_be_right_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut wrong = Vec::new();
    for &(role, text, expected, status) in CONFIGURATIONS {
        let mut lines = String::new();
        for (key, value) in
            [("listen", "127.0.0.1:0"), ("data_dir", "data"), ("coordinator", "127.0.0.1:1")]
        {
            let is_of_role = key != "coordinator" || role == "agent";
            if is_of_role && !text.contains(&format!("{key} =")) {
                lines += &format!("{key} = '{value}'\n");
            }
        }
        fs::write(folder.path().join("c.toml"), lines + text + "\n").unwrap();
        let command = ["suture", role, "--config c.toml"].join(" ");
        let row = (text, expected, status);
        if let Some(fault) =
            fault(&run(&format!("exec timeout 10 {command}"), folder.path(), &[]), &row)
        {
            wrong.push(format!("{role}: {text}\n  expected {status}: {expected}\n  found {fault}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n\n{}", wrong.len(), wrong.join("\n"));
    let made = ["~", "$HOME"].map(|name| folder.path().join(name).exists());
    assert_eq!(made, [false, false]);
}

#[test]
fn what_a_file_may_have_in_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let keys = format!("listen = '127.0.0.1:0'\r\ndata_dir = '{}'\r\n", data.display());
    let comment = format!("#{}\n{keys}", "x".repeat(5 << 20));
    let config = folder.path().join("c.toml");
    for text in [format!("\u{feff}{keys}"), keys.clone(), comment] {
        fs::write(&config, &text).unwrap();
        let (mut coordinator, line) = daemons::Process::start_by(
            suture().args(["coordinator", "--config"]).arg(&config).stderr(Stdio::null()),
        );
        assert!(line.starts_with("listening on "), "{:?}: {line}", &text[..20]);
        coordinator.stop();
    }
}

/// Configurations of agents and coordinators that collide with those of the cluster.
fn write_rivals(cluster: &Cluster, folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    let data = |name: &str| cluster.path(name).display().to_string();
    let address = &cluster.address;
    write(
        "same-dir.toml",
        format!("listen = '127.0.0.1:0'\ndata_dir = '{}'\n", data("coordinator")),
    );
    write("same-port.toml", format!("listen = '{address}'\ndata_dir = 'elsewhere'\n"));
    let agent = |name: &str, data_dir: &str| {
        format!(
            "listen = '127.0.0.1:0'\ncoordinator = '{address}'\nname = '{name}'\ndata_dir = '{data_dir}'\n"
        )
    };
    write("other-name.toml", agent("n33", &data("n2")));
    write("copied-name.toml", agent("n2", "copied"));
    write("other-cluster.toml", agent("n7", "foreign"));
    fs::create_dir_all(folder.join("foreign")).unwrap();
    write("foreign/identity", "suture-store 1\ncluster 00000000000000aa\nnode n7\n".into());
}

#[test]
fn a_cluster_answers_what_cannot_be_done() {
    let mut cluster = Cluster::of(3);
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    write_rivals(&cluster, folder.path());
    // A port on which nobody ever says anything.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let nodes = cluster.json(&["node", "list"]);
    let agent = nodes["nodes"][0]["address"].as_str().unwrap().to_string();
    // A pipe that stays open.
    let script = "mkfifo waiting && exec 9<>waiting && echo open && exec sleep 600";
    let mut holder = Command::new("sh");
    let holder = holder.args(["-c", script]).current_dir(folder.path()).stdin(Stdio::null());
    let (_holder, _) = daemons::Process::start_by(holder);
    cluster.agents[2].stop();
    let variables = [
        ("SUTURE_COORDINATOR", cluster.address.as_str()),
        ("CODE", "--code rs(2,1)"),
        ("AGENT", agent.as_str()),
        ("SILENT_PORT", silent.as_str()),
    ];
    let (alone, rows): (Vec<Row>, Vec<Row>) =
        OF_A_CLUSTER.iter().partition(|row| row.0.starts_with("suture agent"));
    check(&alone, folder.path(), &variables);
    cluster.agents[2] = daemons::start_agent(cluster.folder.path(), &cluster.address, 2, "");
    cluster.wait("all are up", |status| count(status, "up") == 3);
    check(&rows, folder.path(), &variables);
}

#[test]
fn an_object_whose_nodes_are_gone_says_so_once() {
    let mut cluster = Cluster::of(3);
    cluster.put("it", 100_000, &["--code", "rs(2,1)"]);
    cluster.agents[0].kill();
    cluster.agents[1].kill();
    let output = cluster.path("x");
    let failed = cluster.run(&["get", "it", "-o", output.to_str().unwrap()]);
    let row = ("get", "cannot be read now", 1);
    assert_eq!(fault(&failed, &row), None);
    assert!(!output.exists());
}

#[test]
fn signals_and_strangers_end_no_daemon() {
    let cluster = Cluster::of(3);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)"]);
    for process in cluster.agents.iter().chain([&cluster.coordinator]) {
        for signal in [Signal::USR1, Signal::USR2] {
            kill_process(Pid::from_child(&process.0), signal).unwrap();
        }
    }
    let nodes = cluster.json(&["node", "list"]);
    let agent = nodes["nodes"][0]["address"].as_str().unwrap().to_string();
    let mut idle = Vec::new();
    for address in [&cluster.address, &agent] {
        for round in 0..300 {
            let mut stream = TcpStream::connect(address).unwrap();
            if round % 3 == 0 {
                // It may be hung up on before all of it was sent.
                let _ = stream.write_all(&noise(round * 7 + 1));
            }
            idle.push(stream);
        }
    }
    cluster.assert_reads("it", &content);
    assert_eq!(cluster.json(&["status"])["state"], "healthy");
    assert_eq!(count(&cluster.json(&["status"]), "up"), 3);
}

#[test]
fn two_agents_of_one_name_are_told_and_so_is_the_log() {
    let cluster = Cluster::of(1);
    let (config, data) = (cluster.path("twin.toml"), cluster.path("twin"));
    let text = fs::read_to_string(cluster.path("n0.toml")).unwrap();
    let own = cluster.path("n0").display().to_string();
    fs::write(&config, text.replace(&own, &data.display().to_string())).unwrap();
    let refused = finish(suture().args(["agent", "--config"]).arg(&config));
    let row = ("agent", "'n0' is the name of another store, last at 127.0.0.1:", 2);
    assert_eq!(fault(&refused, &row), None);
    let log = fs::read_to_string(cluster.path("coordinator.log")).unwrap();
    assert!(log.contains("an agent is refused: 'n0' is the name of another store"), "{log}");
}
