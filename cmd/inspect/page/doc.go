// Package page is the status page: what a node programs, for people with a browser.
//
//	browser --> Handler --> hosts: is the Host header a name of this node?
//	                          |
//	                          +--> static/: index.html, style.css, scripts (embedded)
//	                          `--> api/document, api/overview --> answers: one read for
//	                                                                |      many viewers
//	                                                                v
//	                                                        Config.Document
//
// It is read-only. Like the rest of the metrics server it has no authentication: every
// client that reaches the server may read it. Headers (headers.go) and the check of host
// names (hosts.go) keep other web sites from reading it through a user's browser.
//
// The page is HTML, CSS and JavaScript modules, served as they are in static/, without a
// build step; it loads nothing from other hosts. Values are inserted as text and
// attributes only, which the browser enforces (Trusted Types).
//
//	app.js        routes, keys, polling    feed.js  polls the API every 2 s
//	rates.js      rates of counters        dom.js   elements, without markup in strings
//	overview.js   the list of Services     table.js the visible rows of a long table
//	service.js    one Service              walk.js  the chains and maps of a packet's path
//	draw.js       the path, as a picture
package page
