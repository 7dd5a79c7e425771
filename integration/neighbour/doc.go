// Package neighbour is another program of a node that writes nf_tables: it adds a
// table of its own again and again and measures how long each of these transactions
// waits.
//
// All transactions of a network namespace take turns, whatever table they are about:
// the kernel has one lock for them (commit_mutex). So the longest wait is how long
// other programs of the namespace held the lock for one transaction. A firewall or a
// network plugin beside the proxy waits as long.
//
//	n, err := neighbour.Start(host)
//	...                        // what the proxy does during this time
//	longest := n.Take()        // of the transactions since Start or the last Take
//	err = n.Stop()
//
// The table exists from the first transaction on. A transaction that adds it once
// more changes nothing, so that it does not disturb programs that watch the rule set
// for changes.
package neighbour
