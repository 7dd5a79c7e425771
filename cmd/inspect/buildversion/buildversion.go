// Package buildversion says which version a program is: the one that the linker has set, or, after
// a plain `go build`, the commit that Go has put into the build info.
package buildversion

import "runtime/debug"

// Unknown is the value of a program's variable that the linker has not set.
const Unknown = "unknown"

// Of returns the version of this program, for the value of its variable.
func Of(linked string) string {
	info, ok := debug.ReadBuildInfo()
	if linked != Unknown || !ok {
		return linked
	}
	return ofModule(info.Main)
}

// ofModule returns the version of the main module, such as v0.0.0-20261128162601-e6320289ffca+dirty.
// It is empty or "(devel)" if the build was outside of a Git repository or with -buildvcs=false.
func ofModule(m debug.Module) string {
	if m.Version == "" || m.Version == "(devel)" {
		return Unknown
	}
	return m.Version
}
