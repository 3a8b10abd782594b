//! A browser without a window, driven by its own protocol: messages of JSON that end with a zero
//! byte, over two pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What browsers are called that speak the protocol.
const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome-headless-shell",
];

/// Where the browser is: SUTURE_BROWSER, or by one of its names in PATH. Says loudly where there is
/// none.
pub fn find() -> Option<PathBuf> {
    let named = std::env::var_os("SUTURE_BROWSER").map(PathBuf::from);
    let candidates = named.into_iter().chain(NAMES.map(PathBuf::from));
    let runs = |path: &PathBuf| {
        let said = Command::new(path).args(["--headless", "--no-sandbox", "--version"]).output();
        said.is_ok_and(|said| said.status.success())
    };
    let found = candidates.into_iter().find(runs);
    if found.is_none() {
        // Past what keeps the output of tests that pass.
        let why = "no browser is here (package chromium), so nobody walked through the page";
        let _ = writeln!(std::io::stderr(), "SKIPPED: {why}; SUTURE_BROWSER says where one is");
    }
    found
}

/// A browser that shows one page.
pub struct Browser {
    process: Child,
    log: PathBuf,
    said: File,
    answers: Receiver<Value>,
    session: String,
    asked: u64,
    /// What the page complained of.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts it with a window of that size.
    pub fn start(path: &Path, folder: &Path, (width, height): (u32, u32)) -> Browser {
        let pipes = ["to-browser", "from-browser"].map(|name| folder.join(name));
        for pipe in &pipes {
            assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        let log = folder.join("browser.log");
        let mut command = Command::new("sh");
        command.args(["-c", r#"in=$1 out=$2; shift 2; exec "$@" 3<"$in" 4>"$out""#, "sh"]);
        command.args(&pipes).arg(path).args(["--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
        command.arg(format!("--window-size={width},{height}"));
        command.stdout(Stdio::null());
        let process = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        let said = File::options().write(true).open(&pipes[0]).unwrap();
        let heard = File::open(&pipes[1]).unwrap();
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(heard).split(0).map_while(Result::ok);
            let values = messages.map_while(|text| serde_json::from_slice(&text).ok());
            values.map_while(|value: Value| sender.send(value).ok()).for_each(drop);
        });
        let (session, complaints) = (String::new(), Vec::new());
        let mut browser = Browser { process, log, said, answers, session, asked: 0, complaints };
        let page = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().unwrap().to_string();
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(width, height);
        browser
    }

    /// Has the window of that size.
    pub fn resize(&mut self, width: u32, height: u32) {
        let is_phone = width < 600;
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Opens a page.
    pub fn open(&mut self, url: &str) {
        self.ask("Page.navigate", json!({ "url": url }));
    }

    /// What an expression is on the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let ask = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", ask);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer:#}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true on the page.
    pub fn wait(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(expression) != json!(true) {
            if began.elapsed() > TIMEOUT {
                let shown = self.value("document.body.innerText");
                panic!("not within a minute: {expression}\n{}", shown.as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Clicks with the mouse where an element is: it has to be there to be seen.
    pub fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{
                const element = document.querySelector({selector:?});
                element.scrollIntoView({{ block: 'center' }});
                const box = element.getBoundingClientRect();
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                return {{ x, y, isSeen: element.contains(document.elementFromPoint(x, y)) }};
            }})()"
        ));
        assert_eq!(place["isSeen"], json!(true), "{selector}: {place}");
        for kind in ["mousePressed", "mouseReleased"] {
            let (x, y) = (&place["x"], &place["y"]);
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.ask("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key that types nothing, such as Tab.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// Types into what has the focus, in place of what is there.
    pub fn type_over(&mut self, text: &str) {
        self.value("document.activeElement.select()");
        self.ask("Input.insertText", json!({ "text": text }));
    }

    /// Keeps a picture of all of the page in the folder SUTURE_SCREENSHOTS, if that is said.
    pub fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("SUTURE_SCREENSHOTS").map(PathBuf::from) else {
            return;
        };
        let shot = json!({ "format": "png", "captureBeyondViewport": true });
        let shot = self.ask("Page.captureScreenshot", shot);
        let file = File::create(folder.join(format!("{name}.png"))).unwrap();
        let mut decode =
            Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
        let mut input = decode.stdin.take().unwrap();
        input.write_all(shot["data"].as_str().unwrap().as_bytes()).unwrap();
        drop(input);
        assert!(decode.wait().unwrap().success());
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.said.write_all(message.to_string().as_bytes()).unwrap();
        self.said.write_all(&[0]).unwrap();
        loop {
            let heard = self.answers.recv_timeout(TIMEOUT);
            let heard = heard.unwrap_or_else(|why| {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                panic!("{method}: the browser: {why}\n{log}")
            });
            if heard["id"] == json!(self.asked) {
                assert!(heard.get("error").is_none(), "{method}: {heard:#}");
                return heard["result"].clone();
            }
            self.note(&heard);
        }
    }

    /// Keeps what the page complains of; what is refused by the coordinator is none of that.
    fn note(&mut self, event: &Value) {
        let entry = &event["params"]["entry"];
        let is_complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => entry["level"] == "error" && entry["source"] != "network",
            _ => false,
        };
        if is_complaint {
            self.complaints.push(event.to_string());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
