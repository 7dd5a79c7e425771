package nodestatus

import (
	"fmt"
	"regexp"
	"time"
)

// MaxObserved is the longest observation of how endpoints respond.
const MaxObserved = 10 * time.Second

// CheckObserve returns an error unless a node can observe for that long.
func CheckObserve(d time.Duration) error {
	if d < 0 || d > MaxObserved {
		return fmt.Errorf("--observe: %s is not between 0 and %s", d, MaxObserved)
	}
	return nil
}

// namespaceName is what Kubernetes accepts (RFC 1123), also as the name of a Service.
var namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckNamespace returns an error unless a namespace can have the name; an empty one is valid.
func CheckNamespace(name string) error {
	if name != "" && !namespaceName.MatchString(name) {
		return fmt.Errorf("--namespace: %.70q is not the name of a namespace: it has at most 63 lower case letters, "+
			"digits and hyphens", name)
	}
	return nil
}

// maxName is longer than any name, address or port of a Service or endpoint.
const maxName = 253

// CheckNames returns an error if a name on the command line is too long for one.
func CheckNames(names []string) error {
	for _, name := range names {
		if len(name) > maxName {
			return fmt.Errorf("%.40q... has %d characters, and a name at most %d", name, len(name), maxName)
		}
	}
	return nil
}
