// Package top shows how many connections Services get, again and again: as a table
// that a person can move in, sort and search, or as plain lines for everything that
// is not a terminal.
//
//	Source --Document--> sheet: rows with rates --sorted, searched--> pane --the part in sight--> View
//	                       ^                                            ^
//	                 sheet before                                      keys
//
// A sheet is made of one Document and of the sheet before it, away from where keys
// are answered; a rate is what a counter has grown by between the two. From then on
// it does not change. A source reads its counters once a second at most, and its
// documents say when: while they are of the same reading, rates stay as they were.
// A [Source] is never asked twice at a time, and rests for at
// least as long as its last answer took, so that looking at a node with very many
// Services does not become its work.
//
// Names come from the API, and end in a terminal: whatever does not print is shown
// as a question mark.
package top
