// Package page is the status page: what a node programs, for people with a browser.
//
//	browser --> Handler --> web.Hosts: is the Host header a name of this node?
//	                          |
//	                          +--> static/: index.html, style.css, scripts (embedded)
//	                          `--> api/document, api/overview --> answers: one read for
//	                                                                |      many viewers
//	                                                                v
//	                                                        Config.Document
//
// It is read-only. Like the rest of the metrics server it has no authentication: every
// client that reaches the server may read it. Package web keeps other web sites from
// reading it through a user's browser, and has what this page shares with that of a cluster.
//
//	app.js       what is shown              walk.js  the chains and maps of a packet's path
//	overview.js  the list of Services       service.js  one Service
package page
