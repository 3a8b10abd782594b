//! One line of a transcript as words: written and read field by field.
//!
//! Place: beside the whole life of a repair, wherever a machine's inputs and outputs are text.
//! A line is words with single spaces between them. `[`, `]` and the `,` between the items of a
//! list are words of their own, though written without a space before (after, for `[`); a text in
//! double quotes is one word, with the escapes of JSON. A field is its key and then its value.
//!
//! Invariant: what `LineWriter` wrote, `LineReader` reads back; nothing that is read can panic.

use std::fmt;

/// A type with a form in words, which [`Textual::read`] takes back exactly.
pub trait Textual: Sized {
    /// Appends the value in its words.
    fn write(&self, line: &mut LineWriter);

    /// Reads the next value.
    ///
    /// # Errors
    /// When the next words are not such a value.
    fn read(line: &mut LineReader<'_>) -> Result<Self, TextError>;
}

impl<T: Textual> Textual for Box<T> {
    fn write(&self, line: &mut LineWriter) {
        T::write(self, line);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Self, TextError> {
        T::read(line).map(Box::new)
    }
}

/// Words that are not what should stand there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// What should stand there, in words.
    pub expected: String,
    /// What does; empty at the end of the line.
    pub found: String,
}

/// A line that is being written.
#[derive(Clone, Debug, Default)]
pub struct LineWriter {
    text: String,
}

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub struct LineReader<'a> {
    rest: &'a str,
}

impl LineWriter {
    /// All that was written, without an end of the line.
    pub fn finish(self) -> String {
        self.text
    }

    /// Appends words as they are.
    pub fn word(&mut self, word: impl fmt::Display) -> &mut LineWriter {
        if !self.text.is_empty() && !self.text.ends_with('[') {
            self.text.push(' ');
        }
        self.text += &word.to_string();
        self
    }

    /// Appends a value in its words.
    pub fn value<T: Textual>(&mut self, value: &T) -> &mut LineWriter {
        value.write(self);
        self
    }

    /// Appends a key and its value.
    pub fn field<T: Textual>(&mut self, key: &str, value: &T) -> &mut LineWriter {
        self.word(key).value(value)
    }

    /// Appends a key and its value, or nothing.
    pub fn option<T: Textual>(&mut self, key: &str, value: Option<&T>) -> &mut LineWriter {
        match value {
            Some(value) => self.field(key, value),
            None => self,
        }
    }

    /// Appends a word, or nothing.
    pub fn flag(&mut self, word: &str, is_set: bool) -> &mut LineWriter {
        if is_set { self.word(word) } else { self }
    }

    /// Appends values in brackets.
    pub fn list<'t, T: Textual + 't>(
        &mut self,
        values: impl IntoIterator<Item = &'t T>,
    ) -> &mut LineWriter {
        self.word('[');
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            self.value(value);
        }
        self.text.push(']');
        self
    }
}

impl<'a> LineReader<'a> {
    /// A reader at the first word of a line.
    pub fn new(line: &'a str) -> LineReader<'a> {
        LineReader { rest: line.trim() }
    }

    /// The next word; empty at the end.
    pub fn peek(&self) -> &'a str {
        let rest = self.rest;
        let end = match rest.chars().next() {
            None => 0,
            Some('[' | ']' | ',') => 1,
            Some('"') => quoted_bytes(rest),
            Some(_) => plain_bytes(rest),
        };
        &rest[..end]
    }

    /// Takes the next word.
    ///
    /// # Errors
    /// At the end of the line.
    pub fn word(&mut self) -> Result<&'a str, TextError> {
        match self.peek() {
            "" => Err(self.error("more")),
            word => {
                self.rest = self.rest[word.len()..].trim_start();
                Ok(word)
            }
        }
    }

    /// Takes the next word if it is this one.
    pub fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek() == word;
        if is_next {
            self.rest = self.rest[word.len()..].trim_start();
        }
        is_next
    }

    /// Takes this word.
    ///
    /// # Errors
    /// When another one comes.
    pub fn expect(&mut self, word: &str) -> Result<(), TextError> {
        if self.take(word) { Ok(()) } else { Err(self.error(format!("'{word}'"))) }
    }

    /// Takes a word that `parse` understands; `expected` describes it.
    ///
    /// # Errors
    /// When it does not.
    pub fn leaf<T>(
        &mut self,
        expected: &str,
        parse: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<T, TextError> {
        let error = self.error(expected);
        parse(self.peek()).and_then(|value| self.word().ok().map(|_| value)).ok_or(error)
    }

    /// Takes a value.
    ///
    /// # Errors
    /// When none stands here.
    pub fn value<T: Textual>(&mut self) -> Result<T, TextError> {
        T::read(self)
    }

    /// Takes a key and its value.
    ///
    /// # Errors
    /// When they do not stand here.
    pub fn field<T: Textual>(&mut self, key: &str) -> Result<T, TextError> {
        self.expect(key)?;
        self.value()
    }

    /// Takes a key and its value if the key comes next.
    ///
    /// # Errors
    /// When the key has no such value.
    pub fn option<T: Textual>(&mut self, key: &str) -> Result<Option<T>, TextError> {
        if self.take(key) { self.value().map(Some) } else { Ok(None) }
    }

    /// Takes values in brackets.
    ///
    /// # Errors
    /// When they do not stand here.
    pub fn list<T: Textual>(&mut self) -> Result<Vec<T>, TextError> {
        self.expect("[")?;
        let mut values = Vec::new();
        while !self.take("]") {
            if !values.is_empty() {
                self.expect(",")?;
            }
            values.push(self.value()?);
        }
        Ok(values)
    }

    /// Ends the line.
    ///
    /// # Errors
    /// When something is left of it.
    pub fn end(&self) -> Result<(), TextError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error("the end of the line")) }
    }

    /// The error that something else than the next word was expected.
    pub fn error(&self, expected: impl fmt::Display) -> TextError {
        TextError { expected: expected.to_string(), found: self.peek().to_string() }
    }
}

/// Bytes of the quoted text at the start, both quotes included; all, when it does not end.
fn quoted_bytes(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return at + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    rest.len()
}

/// Bytes of the word at the start. A comma ends it only before a space: codes have commas inside.
fn plain_bytes(rest: &str) -> usize {
    let is_end = |(at, c): (usize, char)| match c {
        '[' | ']' => true,
        ',' => rest[at + 1..].is_empty() || rest[at + 1..].starts_with(char::is_whitespace),
        c => c.is_whitespace(),
    };
    rest.char_indices().find(|&at| is_end(at)).map_or(rest.len(), |(at, _)| at)
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found.as_str() {
            "" => write!(f, "the line ends where {} should stand", self.expected),
            found => write!(f, "'{found}' stands where {} should", self.expected),
        }
    }
}

impl std::error::Error for TextError {}
