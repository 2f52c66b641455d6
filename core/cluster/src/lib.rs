//! Stages over machines: transports, membership and certificates on zenoh.
#![forbid(unsafe_code)]
