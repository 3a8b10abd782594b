//! The boxes of a page: what stands between two lines of three backticks.

/// One box.
pub struct Fence {
    /// The page that it is on.
    pub page: String,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// What stands behind the backticks.
    pub kind: String,
    /// What it holds.
    pub text: String,
    /// What is waited for before it: the condition in the comment above it.
    pub until: Option<String>,
}

/// All boxes of a page, in order.
pub fn of(page: &str, text: &str) -> Vec<Fence> {
    let (mut fences, mut until, mut open) = (Vec::new(), None, None);
    for (index, line) in text.lines().enumerate() {
        let mark = line.trim_start().strip_prefix("```");
        match (mark, open.take()) {
            (Some(kind), None) => {
                open = Some(Fence {
                    page: page.to_owned(),
                    line: index + 1,
                    kind: kind.trim().to_owned(),
                    text: String::new(),
                    until: until.take(),
                });
            }
            (Some(_), Some(fence)) => fences.push(fence),
            (None, Some(Fence { text, .. })) if text.len() > 1 << 20 => panic!("{page} has no end"),
            (None, Some(mut fence)) => {
                fence.text += &format!("{line}\n");
                open = Some(fence);
            }
            (None, None) => {
                let condition = line.strip_prefix("<!-- until: ");
                if let Some(condition) = condition.and_then(|rest| rest.strip_suffix(" -->")) {
                    until = Some(condition.to_owned());
                }
            }
        }
    }
    assert!(open.is_none(), "{page}: a box does not end");
    fences
}
