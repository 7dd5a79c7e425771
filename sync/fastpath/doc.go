// Package fastpath keeps the table of the fast path ([flowtable]) in the kernel, if it may be
// there:
//
//	interfaces of the node --changes--+--> may it be on? --no--> table removed, with a reason
//	every CheckPeriod ----------------+          |
//	                                            yes --> missing table or devices added
//
// It may not be on beside the flowtable of another program, nor beside a program whose rules
// have to see every packet, since packets in a flowtable pass no rules. Both may come at any
// time, so this is checked again and again, but only if anything changed.
//
// Flows need no care: a connection in the flowtable is an entry of connection tracking as
// before, and the kernel no longer finds it in the flowtable once the entry is deleted
// (flow_offload_lookup, nf_ct_is_dying). Package flows does that for UDP to removed endpoints.
package fastpath
