// Package hold tests with real packets that connections wait while a Service has no endpoint.
package hold
