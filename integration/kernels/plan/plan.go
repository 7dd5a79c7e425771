// Package plan describes what a machine does after it boots: which test programs it runs,
// and how. The program that starts the machine writes it to its disk.
package plan

import (
	"encoding/json"
	"fmt"
	"os"
)

// Path is where the machine finds its plan.
const Path = "/plan.json"

// Plan is what to do, in this order.
type Plan struct {
	// Talk is the serial line for the output of tests.
	Talk string
	// Settings are environment variables of all suites, as "NAME=value".
	Settings []string
	Suites   []Suite
}

// Suite is the tests of a package.
type Suite struct {
	// Package is its import path.
	Package string
	// Dir is the folder that its tests run in, where its program is, too.
	Dir string
	// Args are the program's flags.
	Args []string
}

// Program is the name of a suite's program, in its folder.
const Program = "suite.test"

// EndMark begins the last line that the machine says, when it came to the end;
// the number of suites that failed follows.
const EndMark = "suites that failed: "

// Read reads the plan of the machine this runs on.
func Read() (Plan, error) {
	var p Plan
	text, err := os.ReadFile(Path)
	if err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	return p, nil
}
