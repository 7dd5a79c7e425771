package answer

import (
	"io"

	"kube-vmap/cmd/inspect/output"
)

// Outputs are the values of --output.
var Outputs = []string{"text", "json", "yaml"}

// Print prints the answer in an output format; empty is text.
func (a *Answer) Print(w io.Writer, format string) error {
	if output.IsObject(format) {
		return output.Write(w, format, a)
	}
	_, err := io.WriteString(w, a.Text())
	return err
}
