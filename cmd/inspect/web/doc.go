// Package web is what the pages of a node and of a cluster share: how they are protected,
// how files and answers are sent, and the files that both have.
//
//	request --> SecurityHeaders --> Hosts.Only --> ReadOnly --> Files, Answer
//
// Pages are HTML, CSS and JavaScript modules, served as they are, without a build step;
// they load nothing from other hosts. Values are inserted as text and attributes only,
// which the browser enforces (Trusted Types).
//
//	frame.js  keys, theme, how current the state is    feed.js   polls an API
//	dom.js    elements, without markup in strings      rates.js  rates of counters
//	table.js  the visible rows of a long table         draw.js   a path, as a picture
//	cells.js  cells of a table of Services, totals
package web
