//! Tests of the frontier as a whole, in virtual time, over a state in memory.

mod added;
mod addresses;
mod again;
mod away;
mod bench;
mod dates;
mod errands;
mod explain;
mod hand_over;
mod hostile;
mod hours;
mod lab;
mod limits;
mod loss;
mod order;
mod outlook;
mod polite;
mod ready;
mod robots;
mod second;
mod slot_grants;
mod taken_over;
mod views;
mod visits;
