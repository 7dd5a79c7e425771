// Package page tests the page of a cluster in a real browser,
// Debian's headless chromium.
//
//	test --> Document --> page.Handler on 127.0.0.1 <-- chromium <-- test: keys, clicks, elements
//
// Every test fails if the page writes errors to the console, violates its policy, or loads
// anything from another host.
//
// It is a module of its own, so that the proxy does not depend on what drives a browser.
package page
