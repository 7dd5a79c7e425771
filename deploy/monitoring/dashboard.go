package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// selector has the labels that every query selects: kube-vmap's job and the variables of
// the dashboard. The label cluster is optional.
const selector = `job="kube-vmap", cluster=~"$cluster", instance=~"$instance"`

// An object is a JSON object; its fields are written in alphabetical order.
type object = map[string]any

// dashboard returns the dashboard in the form of Grafana 12 (schema 41). Older versions
// ignore what they do not know, newer ones migrate it.
func dashboard() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(object{
		"uid": "kube-vmap", "title": "kube-vmap", "tags": []string{"kube-vmap", "kubernetes"},
		"description":   "kube-vmap on the nodes of a cluster: health, latency, connections and problems.",
		"schemaVersion": 41, "editable": true, "graphTooltip": 1, // one crosshair in all panels
		"refresh": "30s", "time": object{"from": "now-1h", "to": "now"}, "timezone": "",
		"templating":  object{"list": variables()},
		"panels":      arranged(rows()),
		"links":       []object{},
		"annotations": object{"list": []object{}},
	})
	return out.Bytes(), err
}

// variables returns the variables at the top of the dashboard.
func variables() []object {
	query := func(name, label, of string) object {
		return object{
			"name": name, "label": label, "type": "query", "datasource": datasource(),
			"query":      object{"query": of, "refId": name, "qryType": 1},
			"definition": of, "refresh": 2, "sort": 1, // refresh when the time range changes
			"multi": true, "includeAll": true, "allValue": ".*",
			"current": object{"text": []string{"All"}, "value": []string{"$__all"}}, "options": []object{},
		}
	}
	return []object{
		{
			"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
			"refresh": 1, "current": object{}, "options": []object{},
		},
		query("cluster", "Cluster", `label_values(kubevmap_build_info{job="kube-vmap"}, cluster)`),
		query("instance", "Instance", `label_values(kubevmap_build_info{job="kube-vmap", cluster=~"$cluster"}, instance)`),
	}
}

func datasource() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// columns is the width of Grafana's grid.
const columns = 24

// arranged returns rows and panels with their positions on the grid.
func arranged(rows []row) []object {
	var out []object
	y := 0
	add := func(o object, x, w, h int) {
		o["id"] = len(out) + 1
		o["gridPos"] = object{"x": x, "y": y, "w": w, "h": h}
		out = append(out, o)
	}
	for _, r := range rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, columns, 1)
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			w, h := p.size()
			if x+w > columns {
				x, y = 0, y+height
			}
			add(p.object(), x, w, h)
			x, height = x+w, h
		}
		y += height
	}
	return out
}

// object returns the panel in Grafana's form, without its position.
func (p panel) object() object {
	defaults := object{"unit": p.unit, "min": 0}
	var options object
	switch p.kind {
	case number:
		defaults["thresholds"] = p.thresholds()
		options = object{
			"colorMode": "value", "graphMode": "none", "textMode": "auto", "justifyMode": "auto", "orientation": "auto",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	case table:
		options = object{"showHeader": true, "cellHeight": "sm", "sortBy": []object{{"displayName": "Value", "desc": true}}}
	default:
		defaults["custom"] = object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "auto", "spanNulls": false}
		options = object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	}
	o := object{
		"type": string(p.kind), "title": p.title, "description": p.about, "datasource": datasource(),
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options, "targets": p.targets(),
	}
	if p.kind == table {
		o["transformations"] = []object{{"id": "organize", "options": object{"excludeByName": object{"Time": true}}}}
	}
	return o
}

// targets returns the panel's queries in Grafana's form.
func (p panel) targets() []object {
	var out []object
	for i, q := range p.queries {
		t := object{
			"refId": string(rune('A' + i)), "datasource": datasource(), "editorMode": "code",
			"expr": strings.ReplaceAll(q.expr, "$sel", selector), "legendFormat": q.legend,
		}
		if p.kind == table {
			t["format"] = "table"
		}
		t["instant"], t["range"] = p.kind != lines, p.kind == lines
		out = append(out, t)
	}
	return out
}

// thresholds returns the colours of a number: red from 1 on if it should be zero.
func (p panel) thresholds() object {
	steps := []object{{"color": "text", "value": nil}}
	if p.none {
		steps = []object{{"color": "green", "value": nil}, {"color": "red", "value": 1}}
	}
	return object{"mode": "absolute", "steps": steps}
}

// size returns the panel's width in columns and its height in Grafana's units.
func (p panel) size() (w, h int) {
	if p.kind == number {
		return columns / 6, 4
	}
	return columns / 2, 8
}
