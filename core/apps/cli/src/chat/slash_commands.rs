//! [`COMMANDS`]: what may be typed in a conversation beside messages.

/// Commands of a conversation: name, what follows it, what it does.
pub(crate) const COMMANDS: [(&str, &str, &str); 12] = [
    ("/help", "", "this list"),
    ("/regen", "", "answer the last message again"),
    ("/reset", "", "forget the conversation, keep the system message"),
    ("/system", "[TEXT]", "show or set the system message; - removes it"),
    ("/set", "[NAME VALUE]", "show or change an option of sampling, e.g. /set temp 0.5"),
    ("/show", "", "the model, the context and the options"),
    ("/save", "FILE", "write the conversation as JSON"),
    ("/save!", "FILE", "the same, over a file that exists"),
    ("/load", "FILE", "go on with a conversation that /save wrote"),
    ("/exit", "", "leave (also Ctrl-D)"),
    ("/quit", "", "leave"),
    ("/bye", "", "leave"),
];
