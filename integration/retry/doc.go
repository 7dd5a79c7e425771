// Package retry tests with real packets that a pod that refuses does not cost the connection.
package retry
