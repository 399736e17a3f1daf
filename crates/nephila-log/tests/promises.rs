//! Every implementation keeps the promises.

mod worlds;

mod memory {
    use super::worlds::Memory;
    nephila_log::conformance! { Memory::new() }
}

mod local {
    use super::worlds::Local;
    nephila_log::conformance! { Local::new() }
}

mod one_server {
    use super::worlds::Jet;
    nephila_log::conformance! { Jet::one().await }
}

mod three_servers {
    use super::worlds::Jet;
    nephila_log::conformance! {
        Jet::three().await;
        groups_come_back_in_order,
        groups_of_all_sizes_come_back,
        a_second_owner_shuts_out_the_first,
        a_sync_need_not_be_waited_for,
        messages_come_in_order,
        consumed_messages_go,
        a_lease_has_one_holder,
        a_lease_that_is_not_renewed_ends,
        a_counter_that_many_count_is_right,
    }
}
