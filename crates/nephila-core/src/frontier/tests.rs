//! Tests of the frontier as a whole, in virtual time, over a state in memory.

mod bench;
mod explain;
mod lab;
mod limits;
mod loss;
mod order;
mod polite;
mod robots;
