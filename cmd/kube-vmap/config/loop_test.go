package config

import (
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestSchedulersHaveTheNamesOfIPVS(t *testing.T) {
	for name, want := range map[string]model.Scheduler{
		"": model.SchedulerRandom, "mh": model.SchedulerMaglev, "wlc": model.SchedulerLeastConnections,
	} {
		for _, mode := range []string{"nftables", "iptables", "ipvs"} {
			for _, c := range []*Config{
				load(t, "--proxy-mode="+mode, "--ipvs-scheduler="+name),
				loadText(t, "mode: "+mode+"\nipvs: {scheduler: '"+name+"'}"),
			} {
				warnings := 0
				if name == "" && mode == "ipvs" {
					warnings = 1 // kube-proxy would use rr
				}
				loop, err := c.Loop()
				if got := loop.Scheduler; got != want || err != nil || len(warned(c, "scheduler")) != warnings {
					t.Errorf("%q in mode %s: got %s, warnings %q", name, mode, got, c.Warnings)
				}
			}
		}
	}
}

func TestUnsupportedSchedulersAreAWarningWithTheReason(t *testing.T) {
	for name, why := range map[string]string{"lblc": "connections", "dh": "every client", "RR": "no such scheduler"} {
		for prefix, c := range map[string]*Config{
			"--ipvs-scheduler: ": load(t, "--ipvs-scheduler="+name),
			"ipvs.scheduler: ":   loadText(t, "ipvs: {scheduler: "+name+"}"),
		} {
			got := warned(c, prefix+name+": ")
			if len(got) != 1 || !strings.Contains(got[0], why) || c.Scheduler() != model.SchedulerRandom {
				t.Errorf("%s%s: got %s, warnings %q, want %q", prefix, name, c.Scheduler(), c.Warnings, why)
			}
		}
	}
}

func TestPassiveHealthChecksReachTheLoop(t *testing.T) {
	for value, want := range map[string]model.PassiveChecks{
		"off": model.PassiveChecksOff, "report": model.PassiveChecksReport, "avoid": model.PassiveChecksAvoid,
	} {
		for percent, arg := range map[int]string{1: "=1", 100: "=100"} {
			loop, err := load(t, "--passive-health-checks="+value, "--passive-health-checks-max-percent"+arg).Loop()
			if err != nil || loop.PassiveChecks != want || loop.MaxAvoidedPercent != percent {
				t.Errorf("%s: got %s, at most %d %%, %v", value, loop.PassiveChecks, loop.MaxAvoidedPercent, err)
			}
		}
	}
}
