//! What a script may use, so that it can neither hang the measurement nor exhaust the machine.
//!
//! Pure. Operations are counted for each call of a handler; sizes are those of one value with all that is in
//! it. What a script asks of the engine (messages, timers) and records (samples) is bounded in `desk`.

use rhai::Engine;
use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage,
    BasicMathPackage, BasicStringPackage, BitFieldPackage, LogicPackage, MoreStringPackage,
    Package,
};

/// Operations in one call of a handler: some tenths of a second.
pub const OPERATIONS: u64 = 5_000_000;
/// Calls within calls.
const CALLS: usize = 32;
/// Expressions within expressions.
const DEPTH: usize = 64;
/// Elements of an array with those within.
pub const ARRAY: usize = 200_000;
/// Entries of a map with those within.
const MAP: usize = 100_000;
/// Bytes of a text, and of all texts of one value.
const TEXT: usize = 1 << 20;
/// Variables of one call.
const VARIABLES: usize = 1_000;
/// Functions of a script.
const FUNCTIONS: usize = 500;

/// An interpreter with these bounds: arithmetic, texts, arrays, maps, and nothing of the world.
pub(super) fn engine() -> Engine {
    let mut engine = Engine::new_raw();
    // All of the standard library but the core of the language's own, in which a script could sleep.
    ArithmeticPackage::new().register_into_engine(&mut engine);
    BasicStringPackage::new().register_into_engine(&mut engine);
    BasicIteratorPackage::new().register_into_engine(&mut engine);
    BasicFnPackage::new().register_into_engine(&mut engine);
    BitFieldPackage::new().register_into_engine(&mut engine);
    LogicPackage::new().register_into_engine(&mut engine);
    BasicMathPackage::new().register_into_engine(&mut engine);
    BasicArrayPackage::new().register_into_engine(&mut engine);
    BasicMapPackage::new().register_into_engine(&mut engine);
    MoreStringPackage::new().register_into_engine(&mut engine);
    engine.disable_symbol("eval");
    engine.set_max_operations(OPERATIONS);
    engine.set_max_call_levels(CALLS);
    engine.set_max_expr_depths(DEPTH, DEPTH);
    engine.set_max_array_size(ARRAY);
    engine.set_max_map_size(MAP);
    engine.set_max_string_size(TEXT);
    engine.set_max_variables(VARIABLES);
    engine.set_max_functions(FUNCTIONS);
    engine
}
