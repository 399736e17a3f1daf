{{- define "nephila.labels" -}}
app.kubernetes.io/name: nephila
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
