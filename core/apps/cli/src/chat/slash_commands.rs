//! [`COMMANDS`]: the commands that can be typed in a conversation.

/// Commands of a conversation: name, arguments, effect.
pub(crate) const COMMANDS: [(&str, &str, &str); 12] = [
    ("/help", "", "show this list"),
    ("/regen", "", "answer the last message again"),
    ("/reset", "", "clear the conversation, keep the system message"),
    ("/system", "[TEXT]", "show or set the system message; - removes it"),
    ("/set", "[NAME VALUE]", "show the sampling options or change one, e.g. /set temp 0.5"),
    ("/show", "", "show the model, the context and the options"),
    ("/save", "FILE", "write the conversation as JSON"),
    ("/save!", "FILE", "the same, and replace a file that exists"),
    ("/load", "FILE", "continue a conversation that /save wrote"),
    ("/exit", "", "leave (also Ctrl-D)"),
    ("/quit", "", "leave"),
    ("/bye", "", "leave"),
];
