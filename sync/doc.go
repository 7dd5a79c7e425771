// Package sync keeps the kernel's tables in the state that Kubernetes objects describe.
//
//	Source --[]Event--> desiredState --nft.Change--> nft.Ruleset --nft.Batch--> Kernel
//	(sync/source)       model.ServiceMap             what the kernel holds         |
//	                    and the node                    Followers (sync/follow) <--+
//
// A source reduces objects to model values with package sync/source/convert as they arrive;
// nothing downstream knows a Kubernetes type. One goroutine, the [Loop], owns all state. It
// adds all events that arrived while the kernel worked to the desired state, and turns the
// difference into one batch. The first burst of a source is complete. Before it nothing is
// programmed, and nothing is ever removed because of an incomplete list.
//
// # Phases of the loop
//
//	Starting --first burst--> Due --synced--> Idle --change--> Due
//	                           |               |
//	                           | failed        | MinSyncPeriod
//	                           v               v
//	                        Backoff          Paused
//	                           |               |
//	                           | over          | over
//	                           v               v
//	                          Due            Idle, or Due if there were changes
//
// A pause and a backoff may run together; then both must be over. The complete table is
// in phase.go.
//
// # What the kernel holds
//
// After each batch that the kernel accepted, the rule set (Loop.rules) is what the kernel
// holds, and the next change is planned against it. After a failure it is nil: the next
// sync reads the kernel, compares everything and applies the difference. This is also how
// the loop starts, and takes over the tables of an earlier process.
//
//	error of a batch                     what follows
//	a full set                           rebuild the set, apply the change again
//	no memory                            divide the change; quarantine a single Service
//	refused, our tables untouched        quarantine the Service port, apply the rest again
//	refused, tables possibly changed     read the kernel; quarantine only what it refuses then
//	anything else                        read the kernel after a backoff
//
// Service ports in quarantine are retried with exponential backoff (see quarantine.go).
//
// # Drift
//
// If others can change our tables, the loop notices that and repairs them (see drift.go).
// Tables with an owner cannot be changed by others.
package sync
