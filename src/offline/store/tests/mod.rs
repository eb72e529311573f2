//! What needs to look behind the store's interface.
