//! `suture cert`: a private authority, and the certificates that it signs.
//!
//! Place: before a cluster's first start, and whenever a certificate comes or goes.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use serde_json::json;
use suture_drivers::config::check_name;
use suture_drivers::identity::authority::{Authority, Issued, NODE_LIFETIME, USER_LIFETIME};
use suture_drivers::identity::credentials::Credentials;
use suture_drivers::identity::{AccessRole, Principal};
use suture_edge::error::{bad_input, quoted};
use suture_edge::units::format_seconds;
use suture_terminal::output::{Format, counted, print_json};

use crate::outcome::Outcome;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The longest time that a certificate may be asked for: that of an authority.
const DAYS_MAX: u64 = 3650;

/// Create a certificate authority (CA), issue and revoke certificates of nodes and users.
///
/// A credentials directory has tls.crt, tls.key and ca.crt: name it in a daemon's configuration
/// (`credentials`), or with --credentials or SUTURE_CREDENTIALS for a command. Daemons notice
/// within seconds when its files change.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: CertSubcommand,
}

#[derive(clap::Subcommand)]
enum CertSubcommand {
    /// Create an authority, in a directory to be kept off the cluster's machines
    Init(InitArgs),
    /// Issue credentials for a node's agent, a coordinator, or an HDFS NameNode
    Node(NodeArgs),
    /// Issue credentials for a user
    User(UserArgs),
    /// Revoke all certificates of a node or user, such as 'agent n1' or 'operator alice'
    Revoke(RevokeArgs),
    /// Replace the authority: the new one signs from now on, and both are trusted. With --finish
    /// only the new one is
    Rotate(RotateArgs),
    /// Show whose credentials a directory has, and when they expire
    Show(ShowArgs),
}

#[derive(clap::Args)]
struct AuthorityArgs {
    /// Directory of the authority
    #[arg(long, value_name = "DIR", env = "SUTURE_AUTHORITY", default_value = "suture-authority")]
    authority: PathBuf,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(clap::Args)]
struct InitArgs {
    #[command(flatten)]
    at: AuthorityArgs,
    /// Name in its certificate
    #[arg(long, default_value = "Suture authority")]
    name: String,
}

#[derive(clap::Args)]
struct IssueArgs {
    /// Directory for the credentials [default: the name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Days until it expires [default: 365 for nodes, 90 for users]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=DAYS_MAX))]
    days: Option<u64>,
    #[command(flatten)]
    at: AuthorityArgs,
}

#[derive(clap::Args)]
struct NodeArgs {
    /// Name of the node, as in its agent's configuration, or of the coordinator
    name: String,
    /// For a coordinator instead of an agent
    #[arg(long)]
    coordinator: bool,
    /// For HDFS's NameNode, whose plugin reports lost blocks to the coordinator
    #[arg(long, conflicts_with = "coordinator")]
    keeper: bool,
    /// Host name or address under which browsers reach it; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    #[command(flatten)]
    issue: IssueArgs,
}

#[derive(clap::Args)]
struct UserArgs {
    /// Name of the user
    name: String,
    /// What the user may do: viewer, client, operator or admin
    #[arg(long, value_parser = parse_user_role)]
    role: AccessRole,
    /// What the names of a client's objects begin with [default: NAME/]
    #[arg(long)]
    prefix: Option<String>,
    #[command(flatten)]
    issue: IssueArgs,
}

#[derive(clap::Args)]
struct RevokeArgs {
    /// A role and a name, such as 'agent n1'
    #[arg(value_name = "WHO")]
    who: String,
    /// Credentials directories that get the new list at once; copy it to all others
    #[arg(value_name = "DIR")]
    to: Vec<PathBuf>,
    #[command(flatten)]
    at: AuthorityArgs,
}

#[derive(clap::Args)]
struct RotateArgs {
    /// Trust the new authority only
    #[arg(long)]
    finish: bool,
    /// Finish although some certificates were not renewed: they are no longer accepted
    #[arg(long, requires = "finish")]
    force: bool,
    /// Credentials directories that get the new ca.crt at once; copy it to all others
    #[arg(value_name = "DIR")]
    to: Vec<PathBuf>,
    #[command(flatten)]
    at: AuthorityArgs,
}

#[derive(clap::Args)]
struct ShowArgs {
    /// Credentials directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn parse_user_role(text: &str) -> Result<AccessRole, String> {
    match text.parse() {
        Ok(AccessRole::Agent | AccessRole::Coordinator | AccessRole::Keeper) => {
            Err("nodes are not users: use 'suture cert node'".into())
        }
        Ok(role) => Ok(role),
        Err(_) => Err(format!(
            "{} is not a user role: use viewer, client, operator or admin",
            quoted(text)
        )),
    }
}

/// Makes, takes back or shows certificates.
///
/// # Errors
/// Bad input for names, folders and times that cannot be; a failure when files cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    match args.command {
        CertSubcommand::Init(args) => init(&args),
        CertSubcommand::Node(NodeArgs { name, coordinator, keeper, hosts, issue: args }) => {
            let role = match (coordinator, keeper) {
                (true, _) => AccessRole::Coordinator,
                (_, true) => AccessRole::Keeper,
                (false, false) => AccessRole::Agent,
            };
            let principal = Principal::new(role, &name).map_err(bad_input)?;
            if role == AccessRole::Agent {
                check_name("node", &name).map_err(bad_input)?;
            }
            issue(&principal, &hosts, NODE_LIFETIME, &args)
        }
        CertSubcommand::User(UserArgs { name, role, prefix, issue: args }) => {
            let principal = match prefix {
                Some(prefix) => Principal::with_prefix(role, &name, prefix),
                None => Principal::new(role, &name),
            };
            issue(&principal.map_err(bad_input)?, &[], USER_LIFETIME, &args)
        }
        CertSubcommand::Revoke(args) => revoke(&args),
        CertSubcommand::Rotate(args) => rotate(&args),
        CertSubcommand::Show(args) => show(&args),
    }
}

fn init(InitArgs { at, name }: &InitArgs) -> Result<Outcome> {
    Authority::create(&at.authority, name, SystemTime::now())?;
    let dir = at.authority.display();
    match at.format {
        Format::Json => print_json(&json!({ "authority": at.authority.display().to_string() }))?,
        Format::Text => outln!(
            "created an authority in {dir}: whoever has its ca.key can issue any certificate, so keep it safe\n\
             next: suture cert node NAME --coordinator, then suture cert node NAME for each agent"
        ),
    }
    Ok(Outcome::Done)
}

fn issue(
    principal: &Principal,
    hosts: &[String],
    lifetime: Duration,
    args: &IssueArgs,
) -> Result<Outcome> {
    let own = Path::new(&principal.name);
    let is_folder = matches!(own.components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
    if args.out.is_none() && !is_folder {
        let name = quoted(&principal.name);
        return Err(bad_input(format!(
            "{name} cannot be the name of a directory: name one with --out"
        )));
    }
    let out = args.out.clone().unwrap_or_else(|| own.to_owned());
    let lifetime = args.days.map_or(lifetime, |days| DAY * days as u32);
    let authority = Authority::open(&args.at.authority)?;
    let issued = authority.issue_at(hosts, principal, lifetime, &out, SystemTime::now())?;
    let days = lifetime.as_secs() / DAY.as_secs();
    match args.at.format {
        Format::Json => print_json(&json!({
            "credentials": out.display().to_string(),
            "certificate": issued,
            "hosts": hosts,
        }))?,
        Format::Text => {
            let days = counted(days, "day");
            outln!("{}: credentials of {principal}, for {days}", out.display());
            if !hosts.is_empty() {
                outln!("browsers may know it as {}", hosts.join(", "));
            }
        }
    }
    Ok(Outcome::Done)
}

/// Paths for people: JSON has no others either.
fn shown(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

fn revoke(RevokeArgs { who, to, at }: &RevokeArgs) -> Result<Outcome> {
    let authority = Authority::open(&at.authority)?;
    let revoked = authority.revoke(who, SystemTime::now())?;
    to.iter().try_for_each(|dir| authority.give(dir))?;
    match at.format {
        Format::Json => print_json(&json!({ "revoked": revoked, "given_to": shown(to) }))?,
        Format::Text => {
            outln!("revoked {} of {who}", certificates(revoked.len()));
            hint_copy(at, "ca.crl");
        }
    }
    Ok(Outcome::Done)
}

fn rotate(RotateArgs { finish, force, to, at }: &RotateArgs) -> Result<Outcome> {
    let (authority, now) = (Authority::open(&at.authority)?, SystemTime::now());
    let left: Vec<Issued> = if *finish {
        authority.finish(*force, now)?
    } else {
        authority.rotate("Suture authority", now).map(|()| Vec::new())?
    };
    to.iter().try_for_each(|dir| authority.give(dir))?;
    match (at.format, finish) {
        (Format::Json, _) => {
            let to = shown(to);
            print_json(&json!({ "finished": finish, "no_longer_trusted": left, "given_to": to }))?;
        }
        (Format::Text, true) => {
            outln!("only the new authority is trusted");
            hint_copy(at, "ca.crt");
        }
        (Format::Text, false) => {
            outln!("both authorities are trusted, and the new one signs");
            hint_copy(at, "ca.crt");
            outln!("then issue all credentials again (suture cert node, suture cert user)");
            outln!("then finish: suture cert rotate --finish");
        }
    }
    Ok(Outcome::Done)
}

fn show(ShowArgs { dir, format }: &ShowArgs) -> Result<Outcome> {
    let now = SystemTime::now();
    let credentials = Credentials::read(dir, now)?;
    let (own, left) = (&credentials.own, credentials.own.left(now));
    match format {
        Format::Json => print_json(&json!({
            "role": own.principal.role.word(),
            "name": own.principal.name,
            "prefix": own.principal.prefix,
            "serial": own.serial,
            "not_after": own.not_after,
            "seconds_left": left.as_secs(),
        }))?,
        Format::Text => {
            let left = format_seconds(left.as_secs_f64());
            outln!("{}, for {left} more (number {})", own.principal, own.serial);
            if !own.principal.prefix.is_empty() {
                outln!("its objects have names that begin with {}", own.principal.prefix);
            }
            for warning in credentials.warnings(now) {
                outln!("warning: {warning}");
            }
        }
    }
    Ok(Outcome::Done)
}

fn certificates(count: usize) -> String {
    match count {
        1 => "1 certificate".into(),
        count => format!("{count} certificates"),
    }
}

fn hint_copy(at: &AuthorityArgs, file: &str) {
    let path = at.authority.join(file);
    outln!("copy {} to every credentials directory; daemons notice within seconds", path.display());
}
