package config

import (
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestSchedulersHaveTheNamesOfIPVS(t *testing.T) {
	for name, want := range map[string]model.Scheduler{
		"": model.SchedulerRandom, "random": model.SchedulerRandom, "rr": model.SchedulerRoundRobin, "wrr": model.SchedulerRoundRobin,
		"sh": model.SchedulerSourceHash, "mh": model.SchedulerMaglev,
	} {
		for _, mode := range []string{"nftables", "iptables", "ipvs"} {
			for _, c := range []*Config{
				load(t, "--proxy-mode="+mode, "--ipvs-scheduler="+name),
				loadText(t, "mode: "+mode+"\nipvs: {scheduler: '"+name+"'}"),
			} {
				warnings := 0
				if name == "" && mode == "ipvs" {
					warnings = 1 // kube-proxy would have taken rr
				}
				if got := c.Scheduler(); got != want || len(warned(c, "scheduler")) != warnings {
					t.Errorf("%q in mode %s: got %s, warnings %q", name, mode, got, c.Warnings)
				}
			}
		}
	}
}

func TestSchedulersThatAreNotHereAreAWarningThatSaysWhy(t *testing.T) {
	for name, why := range map[string]string{
		"lc": "connections", "wlc": "connections", "lblc": "connections", "lblcr": "connections",
		"sed": "connections", "nq": "connections", "dh": "every client", "fo": "weights",
		"RR": "no such scheduler", "none": "no such scheduler",
	} {
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

func TestOurOwnFlagsCountBesideAFileAndAreOffByDefault(t *testing.T) {
	file := write(t, header+"clusterCIDR: 10.0.0.0/8")
	for _, args := range [][]string{{"--cluster-cidr=10.0.0.0/8"}, {"--config", file}} {
		off := load(t, args...)
		if off.StrictSourceRanges() || off.EndTCPFlows() {
			t.Errorf("%v: on", args)
		}
		if !off.ProtectTables() || load(t, append(args, "--protect-tables=false")...).ProtectTables() {
			t.Errorf("%v: tables are not protected as the flag says", args)
		}
		strict := load(t, append(args, "--strict-source-ranges")...)
		end := load(t, append(args, "--end-tcp-flows")...)
		if !strict.StrictSourceRanges() || strict.EndTCPFlows() || end.StrictSourceRanges() || !end.EndTCPFlows() {
			t.Errorf("%v: not what the flags say", args)
		}
		for _, c := range []*Config{strict, end} {
			if len(c.Warnings) > 0 {
				t.Errorf("%v: warnings %q", args, c.Warnings)
			}
		}
	}
}

func TestExternalIPsAreServedUnlessTheGateIsClosed(t *testing.T) {
	for fields, want := range map[string]bool{
		"": true,
		"featureGates: {AllowServiceExternalIPs: true}":  true,
		"featureGates: {AllowServiceExternalIPs: false}": false,
	} {
		if c := loadText(t, fields); c.ServesExternalIPs() != want || len(warned(c, "without meaning")) > 0 {
			t.Errorf("%q: got %v, warnings %q", fields, c.ServesExternalIPs(), c.Warnings)
		}
	}
}
