// Runs all tasks of a file in batches, wherever Nextflow runs jobs, and makes the result of them:
//
//     shardwright plan repack run.ome.zarr archive.ome.zarr --codec zstd > tasks.jsonl
//     nextflow run examples/tasks/main.nf --tasks $PWD/tasks.jsonl
params.tasks = 'tasks.jsonl'
params.batch = 100

process batch {
    // 75: what failed has not to do with the tasks. Any other exit code lets the tasks that run end, and no more begin.
    errorStrategy { task.exitStatus == 75 && task.attempt <= 5 ? 'retry' : 'finish' }
    input: val range
    output: path 'receipts.jsonl'
    script: "shardwright run-task '${file(params.tasks)}' --range $range --json > receipts.jsonl"
}

process finish {
    input: path('receipts*.jsonl')
    output: stdout
    script: "shardwright finish '${file(params.tasks)}'"
}

workflow {
    def count = new groovy.json.JsonSlurper().parseText(file(params.tasks).withReader { it.readLine() }).tasks
    def firsts = (0..<count).step(params.batch as int)
    batch(channel.fromList(firsts.collect { "$it:${Math.min(it + (params.batch as int), count as int)}" }))
    finish(batch.out.collect()) | view
}
