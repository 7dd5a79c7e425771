// Package neighbour is another program on a node that writes nf_tables: it repeatedly
// adds a table of its own and measures how long each of these transactions waits.
//
// All nf_tables transactions of a network namespace are serialized by one lock
// (commit_mutex), whatever table they change. So the longest wait is how long the proxy
// held the lock for one transaction. A firewall or a network plugin on the same node
// waits as long.
//
//	n, err := neighbour.Start(host)
//	...                        // transactions of the proxy
//	longest := n.Take()        // since Start or the last Take
//	err = n.Stop()
//
// The first transaction adds the table. The others add an existing table, which changes
// nothing, so that they do not disturb programs that watch the rule set for changes.
package neighbour
