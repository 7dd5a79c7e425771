// Package page is the status page: what a node programs, for people with a browser.
//
//	browser --> Handler --> hosts: is it asked by a name that is this node's?
//	                          |
//	                          +--> static/: index.html, style.css, scripts (embedded)
//	                          `--> api/document, api/overview --> answers: one reading for
//	                                                                |      many viewers
//	                                                                v
//	                                                        Config.Document
//
// It reads and changes nothing. There is no authentication, as nowhere on the
// metrics server: who reaches the server may read all that is served. That other
// sites do not, through the browser of somebody who can reach it, is seen to by
// headers (headers.go) and by the names it may be asked by (hosts.go).
//
// The page is HTML, CSS and JavaScript modules as they stand in static/, without a
// build step, and nothing of it comes from anywhere else. Values reach the document
// as text and attributes only, which the browser enforces (Trusted Types).
//
//	app.js        what is shown, and when: routes, keys, polling
//	feed.js       asks the API every 2 s, and knows how old an answer is
//	rates.js      numbers per second from what was counted
//	overview.js   the service map          table.js  rows that are in sight, of any number
//	service.js    one Service              walk.js   the chains and maps of a packet's way
//	draw.js       the way, as a picture    dom.js    elements, without markup in strings
package page
