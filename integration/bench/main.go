// Command bench measures what the rule set costs, on the real kernel, in network
// namespaces of its own, and prints one report:
//
//	load       encode and send a whole rule set, at 100 to 45,000 Services and at
//	           100,000 endpoints of one
//	sticky     the same of Services with session affinity, beside plain ones
//	events     changes on their way through the loop, from event to commit
//	restart    read everything back and find nothing to do
//	flush      another program removes everything
//	tenants    another tenant's change, and a restart, beside a namespace that uses all
//	           of its budget, in the two worst ways
//	memory     of the kernel for each endpoint
//	connect    a connection through a ClusterIP, and a counted one, beside one without
//	observed   the cost of least connections beside many connections
//	passive    the cost of passive health checks beside many connections
//	deadnode   the endpoints of a node that does not answer leave, and return
//
// Times depend on the machine and on its load. So each is compared with a floor that is
// measured in the same run, alternating with it: the time that the kernel takes for the
// same bytes, encoded beforehand and sent without anything else. The promises and marks
// about these figures are checked at the end; if one does not hold, the exit code is 1.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
)

func main() { os.Exit(run()) }

// bench is one run.
type bench struct {
	report.Report
	quick bool
}

// parts are the parts of the bench, in the order in which they run.
var parts = []struct {
	name string
	run  func(*bench) error
}{
	{"load", (*bench).load},
	{"sticky", (*bench).sticky},
	{"events", (*bench).events},
	{"restart", (*bench).restart},
	{"flush", (*bench).flush},
	{"tenants", (*bench).tenants},
	{"memory", (*bench).memory},
	{"connect", (*bench).connect},
	{"observed", (*bench).observed},
	{"passive", (*bench).passive},
	{"deadnode", (*bench).deadNode},
}

func run() int {
	only := flag.String("run", "", "run the parts whose name matches this `regexp`")
	quick := flag.Bool("quick", false, "fewer repetitions, sizes and families: little more than a minute, rougher")
	flag.Parse()
	if err := measure(&bench{quick: *quick}, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// measure runs the parts that were asked for and prints the report.
func measure(b *bench, only string) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("read -run: %w", err)
	}
	if err := lab.Missing(); err != nil {
		return err
	}
	return b.Print(b.run(chosen))
}

// run runs the chosen parts until one fails.
func (b *bench) run(chosen *regexp.Regexp) error {
	ran := 0
	for _, p := range parts {
		if !chosen.MatchString(p.name) {
			continue
		}
		ran++
		fmt.Fprintf(os.Stderr, "%s ...", p.name)
		start := time.Now()
		err := p.run(b)
		fmt.Fprintf(os.Stderr, " %s\n", report.Text(time.Since(start)))
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if ran == 0 {
		return fmt.Errorf("no part matches %q", chosen)
	}
	return nil
}
