// Package page holds the tests of the status page in a real browser, Debian's
// chromium without a screen.
//
//	test --> Document --> page.Handler on 127.0.0.1 <-- chromium <-- test: keys, clicks, what stands there
//	                      (or a real daemon's)              `--> pictures in .cache/page
//
// Whatever a test is about, it fails if the page complains on the console, if the
// browser refuses something by the page's policy, or if it is asked of anybody but
// the server under test.
//
// It is a module of its own, so that what drives a browser never reaches the proxy's.
package page
