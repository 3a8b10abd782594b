//! Points and faults: what may happen at each call, and the one thing that is to happen now.
//!
//! Place: asked by the tracer before and after every call of an attacked process.
//! A point is the n-th call of one kind on files of one role since the attack was armed; so it is
//! the same point in every run, even where threads take turns in another order.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use super::call::{Call, role};
use super::disk::{Disk, Durable, Loss};

/// A name that no file has: a process that asks for it marks the beginning of the story.
pub const BEGIN: &str = "the-story-begins";

/// The call of which nothing is left but the end.
pub const EXIT: &str = "exit";

/// One call of a story.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// The system call.
    pub call: &'static str,
    /// What its file is.
    pub role: String,
    /// Which of these calls it is, from 1.
    pub nth: u32,
    /// Whether it may make a file.
    pub creates: bool,
}

/// What happens at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The call fails with this error, and does nothing.
    Error(Errno),
    /// A sync fails, the process goes on, and in the end the power goes.
    Unsynced,
    /// A sync fails, the process goes on, and in the end it is killed: all that it wrote is there.
    Killed,
    /// It does half of what it was asked for.
    Short,
    /// The process ends before the call.
    Before(Loss),
    /// The process ends after the call.
    After(Loss),
}

/// Errors of the system, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Errno {
    Io = 5,
    NoMemory = 12,
    TooManyFiles = 24,
    NoSpace = 28,
}

impl Errno {
    /// As manuals have it.
    fn name(self) -> &'static str {
        match self {
            Errno::Io => "EIO",
            Errno::NoMemory => "ENOMEM",
            Errno::TooManyFiles => "EMFILE",
            Errno::NoSpace => "ENOSPC",
        }
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is made.
    Go,
    /// It is made, and its end is reported.
    Tell,
    /// It fails with this error.
    Fail(u64),
    /// It does less.
    Shorten,
    /// The process ends here.
    Kill,
}

/// The calls of a process on one folder: they are counted, and one of them may be hit.
#[derive(Debug)]
pub struct Attack {
    disk: Disk,
    root: std::path::PathBuf,
    is_armed: bool,
    plan: Option<(Point, Fault)>,
    has_struck: bool,
    is_dead: bool,
    counts: BTreeMap<(&'static str, String), u32>,
    points: Vec<Point>,
    /// What threads are in the middle of.
    pending: HashMap<u64, Pending>,
    /// How the last process ended, if not by a signal.
    exit_status: Option<i32>,
}

#[derive(Debug, Default)]
struct Pending {
    synced: Vec<((u64, u64), Durable)>,
    is_last: bool,
}

impl Attack {
    /// On a process that works in this folder, whose content is durable as it is. Nothing is
    /// counted yet.
    pub fn on(root: &Path) -> Attack {
        let root = root.canonicalize().unwrap();
        Attack {
            disk: Disk::of(&root),
            root,
            is_armed: false,
            plan: None,
            has_struck: false,
            is_dead: false,
            counts: BTreeMap::new(),
            points: Vec::new(),
            pending: HashMap::new(),
            exit_status: None,
        }
    }

    /// Calls are counted from when the process marks the begin, and this one is hit.
    pub fn plan(&mut self, plan: Option<(Point, Fault)>) {
        (self.is_armed, self.plan, self.has_struck) = (false, plan, false);
        self.counts.clear();
        self.points.clear();
    }

    /// From now on calls are counted, and this one is hit.
    pub fn arm(&mut self, plan: Option<(Point, Fault)>) {
        self.plan(plan);
        self.is_armed = true;
    }

    /// Whether the call was made that is to be hit.
    pub fn has_struck(&self) -> bool {
        self.has_struck
    }

    /// Whether the process ends of a fault, and was not waited for yet.
    pub fn is_dying(&self) -> bool {
        self.is_dead || self.pending.values().any(|pending| pending.is_last)
    }

    /// Calls are no longer counted; gives those that were, and whether one was hit.
    pub fn disarm(&mut self) -> (Vec<Point>, bool) {
        (self.is_armed, self.plan) = (false, None);
        (std::mem::take(&mut self.points), self.has_struck)
    }

    /// A process has ended, with this status as the system has it.
    pub fn ended(&mut self, status: i32) {
        self.exit_status = (status & 0x7f == 0).then_some(status >> 8 & 0xff);
    }

    /// How the last process ended; nothing if by a signal.
    pub fn exit_status(&self) -> Option<i32> {
        self.exit_status
    }

    /// A process has ended: what was not synced goes, if it was to. The next one may begin.
    pub fn bury(&mut self, loss: Loss) {
        self.disk.lose(loss);
        self.disk.settle();
        self.is_dead = false;
        self.pending.clear();
    }

    /// What becomes of a call that a thread is about to make.
    pub fn before(&mut self, thread: u64, call: &Call) -> Verdict {
        let Some(role) = role(&self.root, &call.path).filter(|_| !self.is_dead) else {
            return Verdict::Go;
        };
        if role == BEGIN {
            self.is_armed = true;
            return Verdict::Go;
        }
        assert_ne!(call.name, "sync_file_range", "not understood");
        let is_sync = is_sync(call.name);
        let synced = match call.name {
            "syncfs" => self.disk.look_at_all(),
            _ if is_sync => self.disk.look(&call.here).into_iter().collect(),
            _ => Vec::new(),
        };
        self.pending.insert(thread, Pending { synced, is_last: false });
        match self.struck(call, role) {
            Some(Fault::Error(errno)) => {
                self.pending.remove(&thread);
                Verdict::Fail(errno as u64)
            }
            Some(Fault::Unsynced | Fault::Killed) => {
                self.pending.remove(&thread);
                Verdict::Fail(Errno::Io as u64)
            }
            Some(Fault::Short) => Verdict::Shorten,
            Some(Fault::Before(_)) => {
                self.is_dead = true;
                Verdict::Kill
            }
            Some(Fault::After(_)) => {
                self.pending.entry(thread).or_default().is_last = true;
                Verdict::Tell
            }
            None if is_sync => Verdict::Tell,
            None => Verdict::Go,
        }
    }

    /// What becomes of a thread after its call.
    pub fn after(&mut self, thread: u64, result: i64) -> Verdict {
        let Pending { synced, is_last } = self.pending.remove(&thread).unwrap_or_default();
        if self.is_dead {
            return Verdict::Go;
        }
        if result == 0 {
            synced.into_iter().for_each(|found| self.disk.synced(found));
        }
        self.is_dead = is_last;
        if is_last { Verdict::Kill } else { Verdict::Go }
    }

    /// Counts the call; the fault, if it is the one.
    fn struck(&mut self, call: &Call, role: String) -> Option<Fault> {
        if !self.is_armed {
            return None;
        }
        let nth = self.counts.entry((call.name, role.clone())).or_insert(0);
        *nth += 1;
        let point = Point { call: call.name, role, nth: *nth, creates: call.creates };
        let is_it = |planned: &Point| {
            (planned.call, &planned.role, planned.nth) == (point.call, &point.role, point.nth)
        };
        let fault = self.plan.as_ref().filter(|(planned, _)| is_it(planned));
        let fault = fault.map(|(_, fault)| *fault);
        self.has_struck |= fault.is_some();
        self.points.push(point);
        fault
    }
}

impl Point {
    /// The end of a story, after all its calls.
    pub fn end() -> Point {
        Point { call: EXIT, role: ".".to_string(), nth: 1, creates: false }
    }

    /// All that may happen there.
    pub fn faults(&self) -> Vec<Fault> {
        use Errno::{Io, NoMemory, NoSpace, TooManyFiles};
        let (errors, is_short): (&[Errno], bool) = match self.call {
            "open" if self.creates => (&[Io, TooManyFiles, NoSpace], false),
            "open" => (&[Io, TooManyFiles], false),
            "read" | "pread" | "readv" | "preadv" => (&[Io], true),
            "write" | "pwrite" | "writev" | "pwritev" => (&[Io, NoSpace], true),
            "mmap" => (&[NoMemory], false),
            // A lock of SQLite that cannot be given back is kept until the process ends: whatever
            // follows is refused, each time after five seconds.
            "fcntl" | EXIT => (&[], false),
            _ if self.changes() => (&[Io, NoSpace], false),
            _ => (&[Io], false),
        };
        let mut faults: Vec<Fault> = errors.iter().copied().map(Fault::Error).collect();
        if is_short {
            faults.push(Fault::Short);
        }
        if is_sync(self.call) {
            faults.extend([Fault::Unsynced, Fault::Killed]);
        }
        let losses = [Loss::All, Loss::Bytes, Loss::Names, Loss::Sectors];
        faults.push(Fault::Before(Loss::Nothing));
        faults.extend(losses.map(Fault::Before));
        if self.changes() {
            faults.push(Fault::After(Loss::Nothing));
            faults.extend(losses.map(Fault::After));
        }
        faults
    }

    /// Whether it is one of many that are alike: what an agent does all the time, or to each
    /// folder.
    pub fn is_repeated(&self) -> bool {
        self.nth > if self.changes() { 8 } else { 2 }
    }

    /// Whether anything is different after it: a file, a name, or what is durable.
    fn changes(&self) -> bool {
        const READS: [&str; 14] = [
            "read", "pread", "readv", "preadv", "stat", "fstat", "lstat", "statx", "access",
            "getdents", "statfs", "fstatfs", "mmap", "flock",
        ];
        let is_read = READS.contains(&self.call) || matches!(self.call, "fcntl" | EXIT);
        !is_read && (self.call != "open" || self.creates)
    }
}

fn is_sync(call: &str) -> bool {
    matches!(call, "fsync" | "fdatasync" | "syncfs")
}

impl Fault {
    /// What is lost with the process, if it ends.
    pub fn loss(self) -> Option<Loss> {
        match self {
            Fault::Before(loss) | Fault::After(loss) => Some(loss),
            Fault::Unsynced => Some(Loss::All),
            Fault::Killed => Some(Loss::Nothing),
            Fault::Error(_) | Fault::Short => None,
        }
    }

    /// The column of the condensed table that it counts in.
    pub fn class(self) -> &'static str {
        match self {
            Fault::Error(errno) => errno.name(),
            Fault::Killed => Errno::Io.name(),
            Fault::Short => "short",
            Fault::Before(Loss::Nothing) => "crash before",
            Fault::After(Loss::Nothing) => "crash after",
            Fault::Unsynced | Fault::Before(_) | Fault::After(_) => "power",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = |loss| match loss {
            Loss::Nothing => "",
            Loss::All => ", unsynced lost",
            Loss::Bytes => ", unsynced bytes lost",
            Loss::Names => ", unsynced names lost",
            Loss::Sectors => ", unsynced sectors lost",
        };
        match self {
            Fault::Error(errno) => f.write_str(errno.name()),
            Fault::Unsynced => write!(f, "EIO, unsynced lost in the end"),
            Fault::Killed => write!(f, "EIO, killed in the end"),
            Fault::Short => write!(f, "short"),
            Fault::Before(loss) => write!(f, "crash before{}", lost(*loss)),
            Fault::After(loss) => write!(f, "crash after{}", lost(*loss)),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} #{}", self.call, self.role, self.nth)
    }
}
