// Package top is kube-vmap top: new and active connections of Services, of one node or added
// up over several, as a table that is printed once or again and again.
//
//	Source --Answer: a Document of each node--> rates, by node --> Table --sorted--> text, JSON
//	                                              ^
//	                                     the node's reading before
//
// A rate is the difference of a node's counters between two reads, by the times in its
// documents, so the first answer is only compared with. There is one query at a time, and a
// pause of at least the duration of the last answer, so that a node with very many Services
// is not kept busy.
package top
