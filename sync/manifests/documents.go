package manifests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// document is one YAML document of a file.
type document struct {
	number int // from 1
	line   int // lines of the file before the document
	text   []byte
	err    error // the document could not be separated from the next; then text is empty
}

// splitDocuments splits a file at the lines "---". It skips documents of comments only.
func splitDocuments(text []byte) []document {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var out []document
	line, rest := 0, text
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		// The reader returns the text of a document, but not its line.
		if at := bytes.Index(rest, bytes.TrimRight(doc, "\n")); err == nil && at >= 0 {
			line += bytes.Count(rest[:at], []byte("\n"))
			if !onlyComments(doc) {
				out = append(out, document{number: len(out) + 1, line: line, text: doc})
			}
			end := min(at+len(doc), len(rest))
			line, rest = line+bytes.Count(rest[at:end], []byte("\n")), rest[end:]
			continue
		}
		out = append(out, document{number: len(out) + 1, text: doc, err: err})
	}
}

// onlyComments reports whether YAML has comments and white space only.
func onlyComments(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// toJSON converts the document to JSON, if it is not JSON already. A duplicate key is
// only a warning, because the API server uses the last one.
func (d document) toJSON() (data []byte, warning, err error) {
	switch {
	case d.err != nil:
		return nil, nil, d.err
	case json.Valid(d.text):
		return d.text, nil, nil
	}
	if err := CheckAliases(d.text); err != nil {
		return nil, nil, err
	}
	data, strict := yaml.YAMLToJSONStrict(d.text)
	if strict == nil {
		return data, nil, nil
	}
	data, err = yaml.YAMLToJSON(d.text)
	return data, d.inFile(strict), d.inFile(err)
}

// lineNumber is how the YAML library names lines, of the document.
var lineNumber = regexp.MustCompile(`\bline \d+`)

// inFile makes lines in an error those of the file.
func (d document) inFile(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(lineNumber.ReplaceAllStringFunc(err.Error(), func(text string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(text, "line "))
		return fmt.Sprintf("line %d", d.line+n)
	}))
}
