package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/inspect/schema"
)

// maxAnswer is the length of an answer that is held in memory, in bytes.
const maxAnswer = 256 << 20

// Decoded, an empty object may take a hundred times as much memory as its two bytes. Objects
// of kube-vmap have this many bytes, on average; short answers may have other ones.
const (
	meanObject = 32
	minObjects = 1 << 16
)

// Document returns the status of a node. The node may be silent for as long as it observes
// in addition.
func (c *Cluster) Document(ctx context.Context, n nodes.Node, q nodestatus.Query) (*nodestatus.Document, error) {
	args := append([]string{"status", "-o", "json"}, q.Args()...)
	d := &nodestatus.Document{}
	if err := c.Patient(q.Observe).JSON(ctx, n, nodestatus.Schema, d, args...); err != nil {
		return nil, err
	}
	return d, nil
}

// JSON runs a command that prints JSON of at most a known schema, and decodes it; see
// [schema.Decode]. An exit code is no error if there is an answer: it may be one, too. A
// command that the node's version does not have is a [*nodes.VersionError].
func (c *Cluster) JSON(ctx context.Context, n nodes.Node, known int, into any, args ...string) error {
	text, err := c.Run(ctx, n, args...)
	var exit *nodes.ExitError
	switch {
	case errors.As(err, &exit) && exit.Unknown():
		version, _ := c.Version(ctx, n) // empty if that fails, too
		return &nodes.VersionError{Version: version, Command: strings.Join(args, " ")}
	case err != nil && (exit == nil || len(text) == 0):
		return err
	}
	if objects := bytes.Count(text, []byte("{")); objects > minObjects && objects > len(text)/meanObject {
		return fmt.Errorf("not a kube-vmap response: it has %d objects in %d bytes", objects, len(text))
	}
	if err := schema.Decode(cleanJSON(text), known, into); err != nil {
		return nodeError{err, n.Pod}
	}
	return nil
}

// Version returns the version of kube-vmap on a node.
func (c *Cluster) Version(ctx context.Context, n nodes.Node) (string, error) {
	text, err := c.Run(ctx, n, "version")
	if err != nil {
		return "", err
	}
	version, ok := strings.CutPrefix(string(text), "kube-vmap ")
	version, whole := strings.CutSuffix(version, "\n")
	if !ok || !whole || strings.Contains(version, "\n") {
		return "", fmt.Errorf("%.100q is not the version of kube-vmap", text)
	}
	return output.CleanLine(version), nil
}

var jsonEscape = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

// cleanJSON returns JSON whose strings have no control characters, escaped or not.
func cleanJSON(text []byte) []byte {
	text = jsonEscape.ReplaceAllFunc(text, func(escape []byte) []byte {
		var s string
		if json.Unmarshal(append(append([]byte{'"'}, escape...), '"'), &s) != nil || s == output.CleanLine(s) {
			return escape
		}
		return []byte(output.CleanLine(s))
	})
	return []byte(output.CleanText(string(text)))
}
