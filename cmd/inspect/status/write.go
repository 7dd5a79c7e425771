package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Write writes a document as JSON, Service by Service: the JSON of a big cluster would
// take as much memory again as the document.
func (d *Document) Write(w io.Writer) error {
	rest := *d
	rest.Services = []Service{}
	text, err := json.Marshal(&rest)
	if err != nil {
		return fmt.Errorf("write a document: %w", err)
	}
	// Quotes within strings are escaped, so this is the field.
	before, after, _ := bytes.Cut(text, []byte(`"services":[]`))
	if _, err := w.Write(append(bytes.Clone(before), `"services":[`...)); err != nil {
		return err
	}
	for i := range d.Services {
		one, err := json.Marshal(&d.Services[i])
		if err != nil {
			return fmt.Errorf("write Service %s/%s: %w", d.Services[i].Namespace, d.Services[i].Name, err)
		}
		if i > 0 {
			one = append([]byte(",\n"), one...)
		}
		if _, err := w.Write(one); err != nil {
			return err
		}
	}
	_, err = w.Write(append(append([]byte("]"), after...), '\n'))
	return err
}
