package answer

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Outputs are the values of --output.
var Outputs = []string{"text", "json", "yaml"}

// Print prints the answer in an output format; empty is text.
func (a *Answer) Print(w io.Writer, output string) (err error) {
	text := []byte(a.Text())
	switch output {
	case "json":
		text, err = json.MarshalIndent(a, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(a)
	}
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}
