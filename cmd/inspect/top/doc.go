// Package top shows the connections of Services live, of one node or of all: as plain lines,
// or on the screen of kubectl-vmap.
//
//	Source --Answer: a Document of each node--> Sheet: rows with rates --sorted, searched--> Table
//	                                              ^
//	                                        previous sheet
//
// A sheet is built from an answer and the previous sheet, in the background, and then does
// not change. Rows of several nodes are added up. Rates are differences of counters between
// two reads of a node, by the times in its documents; between two reads they stay as they
// are. A [Source] has at most one query at a time, and a pause of at least the duration of
// its last answer, so that a node with very many Services is not kept busy.
//
// Names come from the API and are printed on a terminal: unprintable runes become question
// marks.
package top
