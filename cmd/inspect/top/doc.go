// Package top shows the connections of Services live: as an interactive table that can be
// sorted and searched, or as plain lines if the output is not a terminal.
//
//	Source --Document--> sheet: rows with rates --sorted, searched--> pane --visible rows--> View
//	                       ^                                            ^
//	                 previous sheet                                    keys
//
// A sheet is built from a Document and the previous sheet, in the background, and then
// does not change. Rates are differences of counters between two reads, by the times in
// the documents; between two reads they stay as they are. A [Source] has at most one query
// at a time, and a pause of at least the duration of its last answer, so that a node with
// very many Services is not kept busy.
//
// Names come from the API and are printed on a terminal: unprintable runes become question
// marks.
package top
